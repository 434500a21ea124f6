package main

import "slices"

// inTurns measures each subject, one after the other, in a number of rounds, and
// returns each one's measurements in the order of the rounds. Every second round
// goes backwards, so that nobody always comes after the same one.
func inTurns[T any](rounds int, subjects ...func() T) [][]T {
	measured := make([][]T, len(subjects))
	for round := range rounds {
		for i := range subjects {
			if round%2 == 1 {
				i = len(subjects) - 1 - i
			}
			measured[i] = append(measured[i], subjects[i]())
		}
	}
	return measured
}

// rounds are one figure, once for each round.
type rounds []float64

func roundsOf[T any](measured []T, figure func(T) float64) rounds {
	r := make(rounds, len(measured))
	for i, m := range measured {
		r[i] = figure(m)
	}
	return r
}

// quantile is 0 of no rounds.
func (r rounds) quantile(q float64) float64 {
	if len(r) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(r))
	position := q * float64(len(sorted)-1)
	below := int(position)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (position-float64(below))*(sorted[above]-sorted[below])
}

func (r rounds) median() float64 { return r.quantile(0.5) }

// over divides round by round.
func (r rounds) over(other rounds) rounds {
	ratios := make(rounds, 0, len(r))
	for i := range r {
		if other[i] > 0 {
			ratios = append(ratios, r[i]/other[i])
		}
	}
	return ratios
}

// best is the highest of several, round by round.
func best(all []rounds) rounds {
	highest := slices.Clone(all[0])
	for _, r := range all[1:] {
		for i := range r {
			highest[i] = max(highest[i], r[i])
		}
	}
	return highest
}
