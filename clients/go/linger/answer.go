package linger

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// reader takes the answer of a success. An error says that status and body are not the server's.
type reader func(status int, body []byte) error

// interpret hands the answer of the server to read, or returns the error that it is. An answer in another form comes from
// something else.
func interpret(response *http.Response, body []byte, read reader) error {
	if response.StatusCode < 300 {
		if err := read(response.StatusCode, body); err != nil {
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

// UnmarshalJSON reads a job of the API. It refuses an object without the members that every job has.
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
	isWhole := j.ID != "" && j.Topic != "" && j.State != "" && !j.CreatedAt.IsZero() && !j.DueAt.IsZero() && j.Body != nil
	if !isWhole || wire.TTR == nil || wire.Attempts == nil || wire.MaxAttempts == nil {
		return errors.New("this is no job")
	}
	j.Attempts, j.MaxAttempts = *wire.Attempts, *wire.MaxAttempts
	j.TTR, j.Late = time.Duration(*wire.TTR*float64(time.Second)), time.Duration(wire.Late*float64(time.Second))
	return nil
}

// readNothing reads the answer of a call that removes something.
func readNothing(status int, _ []byte) error {
	if status != http.StatusNoContent {
		return errors.New("the status is not 204")
	}
	return nil
}

// jobReader reads the answer of a call about the job with this id.
func jobReader(job *Job, id string) reader {
	return func(status int, body []byte) error {
		if status != http.StatusOK {
			return errors.New("the status is not 200")
		}
		return readJob(job, id, body)
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
	Status  int           `json:"status"`
	ID      string        `json:"id"`
	Problem *RefusedError `json:"problem"`
}

// readResults reads the answer of a batch of so many items.
func readResults(count, status int, body []byte) ([]result, error) {
	var out struct {
		Results []result `json:"results"`
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return nil, err
	}
	if status != http.StatusOK || len(out.Results) != count {
		return nil, errors.New("the results are not whole")
	}
	return out.Results, nil
}

// readAdded reads the answer of AddMany. The ids are those that were sent.
func readAdded(added []Added, status int, body []byte) error {
	results, err := readResults(len(added), status, body)
	if err != nil {
		return err
	}
	for i, result := range results {
		isReplayed, isRefused := result.Status == http.StatusOK, result.Problem != nil
		isAdded := (isReplayed || result.Status == http.StatusCreated) && (result.ID == "" || result.ID == added[i].ID)
		if isRefused && !result.Problem.isAbout(result.Status) || !isRefused && !isAdded {
			return fmt.Errorf("result %d is not one of an add", i)
		}
		added[i].Replayed, added[i].Err = isReplayed, result.Problem
	}
	return nil
}

// readHeld reads the answer of a batch about these jobs: why each was refused, or nil.
func readHeld(jobs []*Job, status int, body []byte) ([]*RefusedError, error) {
	results, err := readResults(len(jobs), status, body)
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
func readJobs(status int, body []byte) ([]*Job, error) {
	var out struct {
		Jobs *[]*Job `json:"jobs"`
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return nil, err
	}
	if status != http.StatusOK || out.Jobs == nil {
		return nil, errors.New("there are no jobs in the answer")
	}
	for _, job := range *out.Jobs {
		if job == nil || job.Receipt == "" {
			return nil, errors.New("a job is not reserved")
		}
	}
	return *out.Jobs, nil
}
