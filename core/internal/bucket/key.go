package bucket

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxKey is the longest key, in bytes, that is stored as it is.
const maxKey = 128

// StoredKey returns key as stores keep it. Most keys stay as they are. A key
// over 128 bytes, or with braces, control characters or a leading '#', becomes
// '#' and the first 128 bits of its SHA-256 in hex: so nobody picks a hash slot
// of Redis Cluster, fills memory with one key, or writes a key that another
// key is stored under.
func StoredKey(key string) string {
	if len(key) <= maxKey && !strings.HasPrefix(key, "#") && strings.IndexFunc(key, reserved) < 0 {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "#" + hex.EncodeToString(sum[:16])
}

func reserved(r rune) bool {
	return r < ' ' || r == 0x7f || r == '{' || r == '}'
}
