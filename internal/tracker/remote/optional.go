package remote

import "encoding/json"

// Optional is a member of a foreign record that may be missing, null or unusable: its
// value is then the zero one, and the record is read on.
type Optional[T any] struct{ Value T }

// UnmarshalJSON implements json.Unmarshaler.
func (o *Optional[T]) UnmarshalJSON(b []byte) error {
	var v T
	if err := json.Unmarshal(b, &v); err == nil {
		o.Value = v
	}
	return nil
}
