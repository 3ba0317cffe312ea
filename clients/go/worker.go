package linger

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

const (
	pollWait = 20 * time.Second
	// How long the ends of jobs are reported after the drain, while the server does not answer.
	lastReports = 10 * time.Second
	// Timers stand still while the machine is suspended, so no wait is longer than this.
	longestWait = 500 * time.Millisecond
)

// Handler does the work of a job. It may run twice for the same job, so the work must be safe to repeat.
//
// If it returns nil, the job is finished; after an error of Bury it is buried; after any other error, or a panic, it is released
// with the error as its reason and comes back on its schedule. ctx is cancelled when the handler must stop: its reservation is
// lost, so that others may have the job by now, or the worker's drain is over. What it returns after that does not count.
type Handler func(ctx context.Context, job *Job) error

// Worker runs the jobs of some topics. While a handler runs, the worker extends its reservation after each third of it. A
// reservation counts from when the last call that succeeded was sent, and is lost after nine tenths, or when the server says so.
type Worker struct {
	Client   *Client
	Topics   []string // the most urgent first
	Handler  Handler
	Parallel int           // how many handlers run at a time; 0 is 1
	TTR      time.Duration // how long a reservation lasts without a heartbeat; 0: each job's own TTR
	Drain    time.Duration // how long running handlers have when the worker ends; 0 is 25 s
	Name     string        // who reserves, for the jobs' histories; host and process id if empty
	// OnEvent is told what happens, by several goroutines; nil writes it to the standard logger. err says why:
	//
	//	away, back          the server, without a job
	//	failed              the handler's error
	//	lost                the reservation
	//	late                the end of the job was reported too late, and it runs again
	//	refused, unanswered the end of the job could not be reported
	OnEvent func(event string, job *Job, err error)
}

// Bury makes an error by which a handler says that its job can never be done.
func Bury(reason string) error { return &buried{reason} }

type buried struct{ reason string }

func (b *buried) Error() string { return b.reason }

// RunUntilSignal is Run until SIGTERM or SIGINT; a second signal ends the process.
func (w *Worker) RunUntilSignal() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop()
	}()
	defer stop()
	return w.Run(ctx)
}

// Run pops and runs jobs until ctx ends or the server refuses the worker, as with a wrong token; it then returns that error.
// Then it takes no more jobs and waits for those that run: after Drain their handlers' contexts are cancelled, and their jobs are
// released without delay. While the server is away Run goes on trying; the end of a job is sent until it is answered or the job's
// reservation ends.
func (w *Worker) Run(ctx context.Context) error {
	r := &run{Worker: *w}
	r.setDefaults()
	var stopHandlers, stopReports context.CancelFunc
	r.handlers, stopHandlers = context.WithCancel(context.Background())
	r.reports, stopReports = context.WithCancel(context.Background())
	defer stopHandlers()
	defer stopReports()
	err := r.poll(ctx)
	defer time.AfterFunc(r.Drain, stopHandlers).Stop()
	defer time.AfterFunc(r.Drain+lastReports, stopReports).Stop()
	r.running.Wait()
	return err
}

// run is a worker while it runs.
type run struct {
	Worker
	handlers, reports context.Context // the ends of the drain and of the last reports
	running           sync.WaitGroup
}

func (r *run) setDefaults() {
	if r.Parallel < 1 {
		r.Parallel = 1
	}
	if r.Drain == 0 {
		r.Drain = 25 * time.Second
	}
	if r.Name == "" {
		host, _ := os.Hostname()
		r.Name = first(fmt.Sprintf("%s:%d", first(host, 48), os.Getpid()), 64)
	}
	if r.OnEvent == nil {
		r.OnEvent = func(event string, job *Job, err error) {
			if job == nil {
				log.Print("linger: the server is ", event, ": ", err)
			} else {
				log.Print("linger: job ", job.ID, " ", event, ": ", err)
			}
		}
	}
}

// poll starts a handler for each job that it gets.
func (r *run) poll(ctx context.Context) error {
	places, pause, isAway := make(chan struct{}, r.Parallel), time.Duration(0), false
	for {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		free := 1
		for isFree := true; isFree && free < 1000; {
			select {
			case places <- struct{}{}:
				free++
			default:
				isFree = false
			}
		}
		sent := time.Now()
		poll := Poll{Topics: r.Topics, Max: free, Wait: pollWait, TTR: r.TTR, Worker: r.Name}
		jobs, err := r.Client.pop(ctx, poll, never)
		for i := len(jobs); i < free; i++ {
			<-places
		}
		for _, job := range jobs {
			r.running.Add(1)
			go func(job *Job) {
				defer r.running.Done()
				r.attempt(job, sent)
				<-places
			}(job)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			if isAway {
				r.OnEvent("back", nil, nil)
			}
			pause, isAway = 0, false
			continue
		}
		var refused *RefusedError
		if errors.As(err, &refused) && !isTemporary(err) {
			return err
		}
		if !isAway {
			r.OnEvent("away", nil, err)
		}
		isAway, pause = true, shorter(longer(2*pause, firstPause), longestPause)
		wait := longer(pause/2+time.Duration(time.Now().UnixNano())%(pause/2), retryAfter(err))
		if sleep(ctx, shorter(wait, longestPause)) != nil {
			return nil
		}
	}
}

// outcome is what a handler returned, and whether it was told to stop before.
type outcome struct {
	err    error
	isTold bool
}

// touched is the answer to a heartbeat.
type touched struct {
	sent time.Time
	err  error
}

// attempt runs one job, which a call sent at sent has reserved.
func (r *run) attempt(job *Job, sent time.Time) {
	ctx, cancel := context.WithCancel(r.handlers)
	defer cancel()
	lease := job.TTR
	if r.TTR > 0 {
		lease = r.TTR
	}
	done, touches := make(chan outcome, 1), make(chan touched, 1)
	arrived, renewed, touchAt, isStarted, isLost := time.Now(), sent, lease/3, false, false
	// The answer to a long poll may be old. The job is started once the reservation is known to last.
	start := func() {
		isStarted = true
		go func() {
			err := r.handle(ctx, job)
			done <- outcome{err, ctx.Err() != nil}
		}()
	}
	lose := func(err error) {
		isLost = true
		r.OnEvent("lost", job, err)
		cancel()
	}
	if since(renewed) < touchAt {
		start()
	}
	for isStarted || !isLost {
		if !isLost && touchAt >= 0 && since(renewed) >= touchAt {
			touchAt = -1
			go func(sent time.Time) { touches <- touched{sent, r.touch(job, lease)} }(time.Now())
		}
		select {
		case ended := <-done:
			if !isLost {
				r.report(job, ended, lease-since(renewed))
			}
			return
		case touch := <-touches:
			code := Code(touch.err)
			switch {
			case isLost:
			case touch.err == nil:
				renewed, touchAt = touch.sent, lease/3
				if !isStarted {
					start()
				}
			case code == "job_not_found" || code == "lease_lost" || code == "not_reserved":
				lose(touch.err)
			default:
				touchAt = since(renewed) + longer(shorter(lease/30, 5*time.Second), 50*time.Millisecond)
			}
		case <-time.After(shorter(longestWait, lease/60)):
		}
		isOver := isStarted && since(renewed) >= lease*9/10 || !isStarted && since(arrived) >= lease
		if isOver && !isLost {
			lose(errors.New("no heartbeat got through"))
		}
	}
}

// touch sends a heartbeat; another one can follow in time if it is not answered.
func (r *run) touch(job *Job, lease time.Duration) error {
	fields := map[string]any{"receipt": job.Receipt}
	setDuration(fields, "ttr", r.TTR)
	limit := longer(shorter(lease/10, 10*time.Second), 250*time.Millisecond)
	return r.Client.do(context.Background(), call{
		method: "POST", path: jobPath(job.ID) + "/touch", fields: fields, read: jobReader(&Job{}, job.ID), limit: limit, repeats: never,
	})
}

// handle calls the handler; a panic is an error of this job alone.
func (r *run) handle(ctx context.Context, job *Job) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return r.Handler(ctx, job)
}

// report tells the server how a job ended, until it answers or the rest of the reservation is over.
func (r *run) report(job *Job, ended outcome, rest time.Duration) {
	var bury *buried
	step, fields := "finish", map[string]any{"receipt": job.Receipt}
	switch {
	case ended.isTold:
		step, fields["delay"], fields["reason"] = "release", "0ms", "the worker ended"
	case errors.As(ended.err, &bury):
		step, fields["reason"] = "bury", first(bury.reason, 1024)
	case ended.err != nil:
		step, fields["reason"] = "release", first(ended.err.Error(), 1024)
		r.OnEvent("failed", job, ended.err)
	}
	err := r.Client.hold(r.reports, job.ID, step, fields, &rest)
	var refused *RefusedError
	switch code := Code(err); {
	case err == nil || step == "finish" && code == "job_not_found":
	// What gave the job back may be an earlier try of this report.
	case step != "finish" && wasRepeated(err) && (code == "lease_lost" || code == "not_reserved"):
	case code == "job_not_found" || code == "lease_lost" || code == "not_reserved":
		r.OnEvent("late", job, err)
	case errors.As(err, &refused):
		r.OnEvent("refused", job, err)
	default:
		r.OnEvent("unanswered", job, err)
	}
}

// since is the time since a moment. The wall clock counts the time in suspend, too, which the other one leaves out.
func since(moment time.Time) time.Duration {
	now := time.Now()
	return longer(now.Sub(moment), now.Round(0).Sub(moment.Round(0)))
}
