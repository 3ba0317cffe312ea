package linger

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// reply is an answer with the status of a success.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// reader takes a reply. An error says that it is not the server's.
type reader func(reply) error

// interpret hands the answer of the server to read, or returns the error that it is. An answer in another form comes from
// something else.
func interpret(response *http.Response, body []byte, read reader) error {
	if response.StatusCode < 300 {
		if err := read(reply{response.StatusCode, response.Header, body}); err != nil {
			return foreign(response, body)
		}
		return nil
	}
	refused := &RefusedError{}
	if json.Unmarshal(body, refused) != nil || !refused.isAbout(response.StatusCode) {
		return foreign(response, body)
	}
	refused.RetryAfter = askedPause(response)
	return refused
}

func foreign(response *http.Response, body []byte) error {
	kind := response.Header.Get("Content-Type")
	if kind == "" {
		kind = "no Content-Type"
	}
	err := fmt.Errorf("the answer did not come from Linger: status %d, %s, %q", response.StatusCode, kind, first(string(body), 200))
	// A proxy that refuses a call does not pass it on.
	isUnsent := response.StatusCode >= 300 && response.StatusCode < 500
	return &NoAnswerError{Err: err, Unsent: isUnsent, status: response.StatusCode, retryAfter: askedPause(response)}
}

// askedPause is the Retry-After of an answer.
func askedPause(response *http.Response) time.Duration {
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil {
		return 0
	}
	return shorter(time.Duration(seconds), aDay/time.Second) * time.Second
}

// isAbout tells whether this is a problem document of the server about a failure with this status.
func (e *RefusedError) isAbout(status int) bool { return e.Code != "" && e.Status == status }

// UnmarshalJSON reads a problem document, or that of an item of a batch. Where the server does not say, Retaken is true.
func (e *RefusedError) UnmarshalJSON(data []byte) error {
	type plain RefusedError
	read := plain{Retaken: true}
	err := json.Unmarshal(data, &read)
	*e = RefusedError(read)
	return err
}

// UnmarshalJSON reads a job of the API. It refuses an object without the members that every job has, unless the job has ended.
func (j *Job) UnmarshalJSON(data []byte) error {
	type plain Job
	wire := struct {
		*plain
		TTR         *float64 `json:"ttr"`
		Attempts    *int     `json:"attempts"`
		MaxAttempts *int     `json:"max_attempts"`
		Late        float64  `json:"late"`
	}{plain: (*plain)(j)}
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	isNamed := j.ID != "" && j.Topic != "" && j.State != ""
	if isNamed && j.Ended != nil {
		return nil
	}
	isWhole := isNamed && !j.CreatedAt.IsZero() && !j.DueAt.IsZero() && j.Body != nil
	if !isWhole || wire.TTR == nil || wire.Attempts == nil || wire.MaxAttempts == nil {
		return errors.New("this is no job")
	}
	j.Attempts, j.MaxAttempts = *wire.Attempts, *wire.MaxAttempts
	j.TTR, j.Late = duration(*wire.TTR), duration(wire.Late)
	return nil
}

// duration is one of the API, in seconds.
func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// readNothing reads the answer of a call that removes something.
func readNothing(answer reply) error {
	if answer.status != http.StatusNoContent {
		return errors.New("the status is not 204")
	}
	return nil
}

// jobReader reads the answer of a call about the job with this id.
func jobReader(job *Job, id string) reader {
	return func(answer reply) error {
		if answer.status != http.StatusOK {
			return errors.New("the status is not 200")
		}
		return readJob(job, id, answer.body)
	}
}

// addedReader reads the answer of an add of a job with this id.
func addedReader(job *Job, id string) reader {
	return func(answer reply) error {
		isOld := answer.status == http.StatusOK
		if !isOld && answer.status != http.StatusCreated {
			return errors.New("the status is neither 201 nor 200")
		}
		err := readJob(job, id, answer.body)
		job.Replaced = isOld && answer.header.Get("Linger-Replaced") == "true"
		job.Replayed = isOld && !job.Replaced
		return err
	}
}

func readJob(job *Job, id string, body []byte) error {
	var found Job
	if err := json.Unmarshal(body, &found); err != nil {
		return err
	}
	if found.ID != id {
		return errors.New("this is another job")
	}
	*job = found
	return nil
}

// result is that of one item of a batch.
type result struct {
	Status   int           `json:"status"`
	ID       string        `json:"id"`
	Replaced bool          `json:"replaced"`
	Ended    *Ended        `json:"ended"`
	Problem  *RefusedError `json:"problem"`
}

// readResults reads the answer of a batch of so many items.
func readResults(count int, answer reply) ([]result, error) {
	var out struct {
		Results []result `json:"results"`
	}
	if err := json.Unmarshal(answer.body, &out); err != nil {
		return nil, err
	}
	if answer.status != http.StatusOK || len(out.Results) != count {
		return nil, errors.New("the results are not whole")
	}
	return out.Results, nil
}

// readAdded reads the answer of AddMany. The ids are those that were sent.
func readAdded(added []Added, answer reply) error {
	results, err := readResults(len(added), answer)
	if err != nil {
		return err
	}
	for i, result := range results {
		isOld, isRefused := result.Status == http.StatusOK, result.Problem != nil
		isAdded := (isOld || result.Status == http.StatusCreated) && (result.ID == "" || result.ID == added[i].ID)
		if isRefused && !result.Problem.isAbout(result.Status) || !isRefused && !isAdded {
			return fmt.Errorf("result %d is not one of an add", i)
		}
		added[i].Replaced, added[i].Ended = isOld && result.Replaced, result.Ended
		added[i].Replayed, added[i].Err = isOld && !result.Replaced, result.Problem
	}
	return nil
}

// readHeld reads the answer of a batch about these jobs: why each was refused, or nil.
func readHeld(jobs []*Job, answer reply) ([]*RefusedError, error) {
	results, err := readResults(len(jobs), answer)
	if err != nil {
		return nil, err
	}
	refused := make([]*RefusedError, len(jobs))
	for i, result := range results {
		isDone := result.Status == http.StatusOK && (result.ID == "" || result.ID == jobs[i].ID)
		if result.Problem != nil && !result.Problem.isAbout(result.Status) || result.Problem == nil && !isDone {
			return nil, fmt.Errorf("result %d is not one of such a batch", i)
		}
		refused[i] = result.Problem
	}
	return refused, nil
}

// readJobs reads the answer of a pop.
func readJobs(answer reply) ([]*Job, error) {
	var out struct {
		Jobs *[]*Job `json:"jobs"`
	}
	if err := json.Unmarshal(answer.body, &out); err != nil {
		return nil, err
	}
	if answer.status != http.StatusOK || out.Jobs == nil {
		return nil, errors.New("there are no jobs in the answer")
	}
	for _, job := range *out.Jobs {
		if job == nil || job.Receipt == "" {
			return nil, errors.New("a job is not reserved")
		}
	}
	return *out.Jobs, nil
}
