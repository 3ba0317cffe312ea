package linger

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// NewJob is a job to add. Only Topic is required; what is left out follows the settings of the topic.
type NewJob struct {
	Topic       string
	ID          string          // made by the client if empty
	Body        any             // as encoding/json writes it; a json.RawMessage is kept byte for byte
	Delay       time.Duration   // from now, to the millisecond
	At          time.Time       // in place of Delay
	TTR         time.Duration   // how long a reservation lasts; 1 s to 30 days
	MaxAttempts int             // or NoLimit
	Retry       []time.Duration // the waits between attempts
	Expire      time.Duration   // from when on it is not delivered, from its due time
	ExpireAt    time.Time       // in place of Expire
	OnExpiry    string          // what happens then, with one of these: "dead" or "delete"
	// IfExists says what happens to a job of the same topic and ID: with "keep", or if empty, it stays; with "replace", which needs an
	// ID, this job takes its place.
	IfExists string
	// Revision is your number of this version, from 0 on. With "replace", a higher one replaces a lower one or none, an equal one is a
	// repeat, and a lower one is refused with the code stale_revision.
	Revision *int64
}

// isRepeatable tells whether the add may be sent again after a lost answer. Without a revision, a late repeat would restore an older
// version.
func (j *NewJob) isRepeatable() bool { return !j.replaces() || j.Revision != nil }

func (j *NewJob) replaces() bool { return j.IfExists == "replace" }

// definition is the JSON of a job to add, which gets an id. One that replaces another must name that.
func (j *NewJob) definition() ([]byte, error) {
	if j.ID == "" && !j.replaces() {
		var err error
		if j.ID, err = newID(); err != nil {
			return nil, err
		}
	}
	return j.template()
}

func newID() (string, error) {
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return "", err
	}
	return hex.EncodeToString(random), nil
}

// template is the JSON of a job with what is given. Its body is not given to encoding/json, which would change spaces and letters.
func (j *NewJob) template() ([]byte, error) {
	fields := map[string]any{"topic": j.Topic}
	setText(fields, "id", j.ID)
	setDuration(fields, "delay", j.Delay)
	setDuration(fields, "ttr", j.TTR)
	setTime(fields, "at", j.At)
	setAttempts(fields, j.MaxAttempts, j.Retry)
	setExpiry(fields, j.Expire, j.ExpireAt, j.OnExpiry)
	setText(fields, "if_exists", j.IfExists)
	if j.Revision != nil {
		fields["revision"] = *j.Revision
	}
	return withMember(fields, "body", j.Body)
}

func setAttempts(fields map[string]any, most int, retry []time.Duration) {
	if most != 0 {
		fields["max_attempts"] = most
	}
	if most == NoLimit {
		fields["max_attempts"] = 0
	}
	if retry == nil {
		return
	}
	steps := make([]string, len(retry))
	for i, step := range retry {
		steps[i] = text(step)
	}
	fields["retry"] = steps
}

func setExpiry(fields map[string]any, after time.Duration, at time.Time, what string) {
	setDuration(fields, "expire", after)
	setTime(fields, "expire", at)
	setText(fields, "on_expiry", what)
}

// withMember is a JSON object with one more member, which is not given to encoding/json if it is raw.
func withMember(fields map[string]any, name string, value any) ([]byte, error) {
	member, isRaw := value.(json.RawMessage)
	if !isRaw {
		var err error
		if member, err = json.Marshal(value); err != nil {
			return nil, err
		}
	} else if !json.Valid(member) {
		return nil, fmt.Errorf("the %s is not JSON", name)
	}
	object, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	object = object[:len(object)-1]
	if len(fields) > 0 {
		object = append(object, ',')
	}
	return append(append(append(object, `"`+name+`":`...), member...), '}'), nil
}

func text(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

// instant is in UTC, since RFC 3339 has no seconds in offsets.
func instant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func setDuration(fields map[string]any, name string, d time.Duration) {
	if d != 0 {
		fields[name] = text(d)
	}
}

func setTime(fields map[string]any, name string, t time.Time) {
	if !t.IsZero() {
		fields[name] = instant(t)
	}
}

func setText(fields map[string]any, name, value string) {
	if value != "" {
		fields[name] = value
	}
}

// Add adds a job and returns it, with Replayed if the server had it already, or Replaced if it took the place of an older version. A
// job that replaces others without a Revision is not sent again if it may have done so: a late repeat would restore an older version.
func (c *Client) Add(ctx context.Context, job NewJob) (*Job, error) {
	definition, err := job.definition()
	if err != nil {
		return nil, err
	}
	added := &Job{}
	add := call{method: "POST", path: "/jobs", raw: definition, read: addedReader(added, job.ID), repeats: repeatsOf(job.isRepeatable())}
	if err := c.do(ctx, add); err != nil {
		return nil, fmt.Errorf("add %s: %w", job.ID, err)
	}
	return added, nil
}

// Added is the result of one job of AddMany.
type Added struct {
	ID       string
	Replayed bool
	Replaced bool
	Ended    *Ended        // how and when the job ended, if this add repeats that of a finished job
	Err      *RefusedError // nil if the job is there or was finished
}

// AddMany adds up to 1,000 jobs in one call. The results are in the order of the jobs; one that is refused does not affect
// the others. If one of them may not be sent again, as in Add, then none of them is.
func (c *Client) AddMany(ctx context.Context, jobs []NewJob) ([]Added, error) {
	definitions, added, isRepeatable := make([][]byte, len(jobs)), make([]Added, len(jobs)), true
	for i, job := range jobs {
		var err error
		if definitions[i], err = job.definition(); err != nil {
			return nil, fmt.Errorf("add job %d: %w", i, err)
		}
		added[i].ID = job.ID
		isRepeatable = isRepeatable && job.isRepeatable()
	}
	raw := append(append([]byte(`{"jobs":[`), bytes.Join(definitions, []byte(","))...), "]}"...)
	read := func(answer reply) error { return readAdded(added, answer) }
	add := call{method: "POST", path: "/batch/jobs", raw: raw, read: read, repeats: repeatsOf(isRepeatable)}
	if err := c.do(ctx, add); err != nil {
		return nil, fmt.Errorf("add %d jobs: %w", len(jobs), err)
	}
	return added, nil
}
