package linger

import (
	"context"
	"errors"
	"fmt"
	"log"
	"runtime/debug"
)

// PanicError is the panic of a handler, as OnEvent learns it.
type PanicError struct {
	Value any    // what the handler panicked with
	Stack []byte // as debug.Stack writes it
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Bury makes an error by which a handler says that its job can never be done.
func Bury(reason string) error { return &buried{reason} }

type buried struct{ reason string }

func (b *buried) Error() string { return b.reason }

// guarded calls code of the user, and returns an error if that does not return. It does so in a goroutine of its own, which may
// end by runtime.Goexit.
func guarded(call func()) error {
	done := make(chan error, 1)
	go func() {
		err := errors.New("it ended by panic(nil) or runtime.Goexit")
		defer func() {
			if cause := recover(); cause != nil {
				err = &PanicError{cause, debug.Stack()}
			}
			done <- err
		}()
		call()
		err = nil
	}()
	return <-done
}

// outcome is the call by which the end of a job is reported, and its fields.
type outcome struct {
	step   string
	fields map[string]any
}

// handle runs the handler of a job. Whatever the handler, its error and OnEvent do, the job has an outcome.
func (r *run) handle(ctx context.Context, job *Job) outcome {
	var err error
	if failure := guarded(func() { err = r.Handler(ctx, job) }); failure != nil {
		err = failure
	}
	if ctx.Err() != nil {
		return outcome{"release", map[string]any{"delay": "0ms", "reason": "the worker ended"}}
	}
	if err == nil {
		return outcome{"finish", map[string]any{}}
	}
	ended := outcome{}
	if failure := guarded(func() { ended = failedOutcome(err) }); failure != nil {
		reason := first("the text of the handler's error cannot be read: "+failure.Error(), 1024)
		ended = outcome{"release", map[string]any{"reason": reason}}
	}
	if ended.step == "release" {
		r.event("failed", job, err)
	}
	return ended
}

// failedOutcome is the outcome of a job whose handler returned an error.
func failedOutcome(err error) outcome {
	var bury *buried
	if errors.As(err, &bury) {
		return outcome{"bury", map[string]any{"reason": first(bury.reason, 1024)}}
	}
	return outcome{"release", map[string]any{"reason": first(err.Error(), 1024)}}
}

// event calls OnEvent, which can do nothing to the worker.
func (r *run) event(event string, job *Job, err error) {
	if failure := guarded(func() { r.OnEvent(event, job, err) }); failure != nil {
		_ = guarded(func() { log.Print("linger: OnEvent failed at ", event, ": ", failure, stack(failure)) })
	}
}

func logEvent(event string, job *Job, err error) {
	if job == nil {
		log.Print("linger: the server is ", event, ": ", err)
	} else {
		log.Print("linger: job ", job.ID, " ", event, ": ", err, stack(err))
	}
}

// stack is the stack of a panic, on lines of its own.
func stack(err error) string {
	if panicked, isPanic := err.(*PanicError); isPanic {
		return "\n" + string(panicked.Stack)
	}
	return ""
}
