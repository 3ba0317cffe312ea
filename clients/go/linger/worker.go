package linger

import (
	"context"
	"errors"
	"fmt"
	"math"
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
// with the error as its reason and comes back on its schedule. ctx has the values of the context given to Run, and is cancelled
// when the handler must stop: its reservation is lost, so that others may have the job by now, or the worker's drain is over.
// What it returns after that does not count.
type Handler func(ctx context.Context, job *Job) error

// Worker runs the jobs of some topics. While a handler runs, the worker extends its reservation after each third of it, or before
// along with those of other jobs. A reservation counts from when the last call that succeeded was sent, and is lost after nine
// tenths, or when the server says so.
type Worker struct {
	Client   *Client
	Topics   []string // the most urgent first
	Handler  Handler
	Parallel int           // how many handlers run at a time; 0 is 1
	TTR      time.Duration // how long a reservation lasts without a heartbeat; 0: each job's own TTR
	Drain    time.Duration // how long running handlers have when the worker ends; 0 is 25 s
	Name     string        // who reserves, for the jobs' histories; host and process id if empty
	// OnEvent is told what happens, by several goroutines; nil writes it to the standard logger. Its panics are logged. err says
	// why:
	//
	//	away, back          the server, without a job
	//	failed              the handler's error; a *PanicError has the stack
	//	lost                the reservation
	//	late                the end of the job was reported too late: it, or a newer version of it, runs again
	//	refused, unanswered the end of the job could not be reported
	OnEvent func(event string, job *Job, err error)
}

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

// Run pops and runs jobs until ctx ends or the server refuses the worker, as with a wrong token; it then returns that error. A
// worker without a Client, Topics or a Handler is refused at once.
// Then it takes no more jobs and waits for those that run: after Drain their handlers' contexts are cancelled, and their jobs are
// released without delay. While the server is away Run goes on trying; the end of a job is sent until it is answered or the job's
// reservation ends.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.check(); err != nil {
		return err
	}
	r := &run{Worker: *w}
	r.setDefaults()
	r.heartbeats = &heartbeats{client: r.Client, ttr: r.TTR, waiting: map[*heartbeat]bool{}}
	var stopHandlers, stopReports context.CancelFunc
	r.handlers, stopHandlers = context.WithCancel(withoutCancel{ctx})
	r.reports, stopReports = context.WithCancel(withoutCancel{ctx})
	defer stopHandlers()
	defer stopReports()
	err := r.poll(ctx)
	defer time.AfterFunc(r.Drain, stopHandlers).Stop()
	if r.Drain < math.MaxInt64-lastReports {
		defer time.AfterFunc(r.Drain+lastReports, stopReports).Stop()
	}
	r.running.Wait()
	return err
}

func (w *Worker) check() error {
	switch {
	case w.Client == nil:
		return errors.New("the worker has no Client")
	case len(w.Topics) == 0:
		return errors.New("the worker has no Topics")
	case w.Handler == nil:
		return errors.New("the worker has no Handler")
	case w.Parallel < 0 || w.TTR < 0 || w.Drain < 0:
		return errors.New("Parallel, TTR and Drain of the worker must not be negative")
	}
	return nil
}

// withoutCancel has the values of a context, and outlives it. From Go 1.21 on it is context.WithoutCancel.
type withoutCancel struct{ context.Context }

func (withoutCancel) Deadline() (time.Time, bool) { return time.Time{}, false }
func (withoutCancel) Done() <-chan struct{}       { return nil }
func (withoutCancel) Err() error                  { return nil }

// run is a worker while it runs.
type run struct {
	Worker
	handlers, reports context.Context // the ends of the drain and of the last reports
	running           sync.WaitGroup
	heartbeats        *heartbeats
}

func (r *run) setDefaults() {
	if r.Parallel == 0 {
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
		r.OnEvent = logEvent
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
		jobs, err := r.Client.pop(ctx, poll, ifNotBegun)
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
				r.event("back", nil, nil)
			}
			pause, isAway = 0, false
			continue
		}
		var refused *RefusedError
		if errors.As(err, &refused) && !isTemporary(err) {
			return err
		}
		if !isAway {
			r.event("away", nil, err)
		}
		isAway, pause = true, shorter(longer(2*pause, firstPause), longestPause)
		wait := longer(pause/2+time.Duration(time.Now().UnixNano())%(pause/2), retryAfter(err))
		if sleep(ctx, shorter(wait, longestPause)) != nil {
			return nil
		}
	}
}
