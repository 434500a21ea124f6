// Command benchmarks measures this limiter beside others, on a redis-server of
// its own, and prints one table for each question:
//
//	go run .              # two to three minutes, all but growth
//	go run . -growth      # also how time and memory grow with keys and callers
//	go run . -json        # the same figures for programs
//	go run . -only script # the sections whose title matches
//
// README.md says what the rows mean, how the others are configured and what the
// figures do not say.
//
// # How it measures
//
// Machines are noisy, so nothing is measured once. Subjects take turns: each is
// measured for a short while, one after the other, in several rounds. A figure
// is the median over the rounds. A ratio is the median of the rounds' ratios, so
// that what slows a whole round down cancels out.
//
// Read contestant.go for who is measured, load.go for how callers behave, and
// then one file for each section.
package main
