package bucket

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMostKeysAreStoredAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, key := range []string{
		"a", " ", "user:42", "2001:db8::1", "a#b", "a b", "é", "ß", "\xff\xfe", "\u0080", "%7B", "[]", "*",
		strings.Repeat("x", 128),
	} {
		if got := StoredKey(key); got != key {
			t.Errorf("%q is stored as %q", key, got)
		}
	}
}

func TestAKeyThatCouldHarmIsStoredAsItsHash(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{ // printf '…' | sha256sum | cut -c1-32
		"{":                      "#021fb596db81e6d02bf3d2586ee3981f",
		"#":                      "#334359b90efed75da5f0ada1d5e6b256",
		strings.Repeat("x", 129): "#0ec9eb33e74510bcdd1f2ea55206e82f",
	} {
		if got := StoredKey(key); got != want {
			t.Errorf("%.20q is stored as %q, want %q", key, got, want)
		}
	}
	for _, key := range []string{
		"}", "{}", "}{", "a{b}c", "#a", "##", "\x00", "\n", "a\tb", "\x1f", "\x7f", "a\x7f",
		strings.Repeat("x", 129), strings.Repeat("é", 65), strings.Repeat("x", 1<<20),
	} {
		got := StoredKey(key)
		if len(got) != 33 || got[0] != '#' || strings.Trim(got[1:], "0123456789abcdef") != "" {
			t.Errorf("%.20q is stored as %q, want # and 32 hex digits", key, got)
		}
	}
}

func TestAStoredKeyIsBoundedAndSafe(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := string(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "key"))
		got := StoredKey(key)
		if len(got) > 128 || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r == 0x7f || r == '{' || r == '}' }) {
			t.Fatalf("%q is stored as %q", key, got)
		}
		// Nobody can write a key that is stored as another's hash.
		if got != key && StoredKey(got) == got {
			t.Fatalf("%q and %q are both stored as %q", key, got, got)
		}
	})
}

func TestDistinctKeysAreStoredAsDistinctKeys(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.OneOf(rapid.String(), rapid.StringMatching(`#?[{}a#]{0,140}`))
		a, b := key.Draw(t, "a"), key.Draw(t, "b")
		if (StoredKey(a) == StoredKey(b)) != (a == b) {
			t.Fatalf("%q and %q are stored as %q and %q", a, b, StoredKey(a), StoredKey(b))
		}
	})
}
