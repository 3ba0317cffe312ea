// Calls a running server by the generated Go client: each kind of value once, and each optional body left out.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	linger "example.test/linger"
)

func check(holds bool, what ...any) {
	if !holds {
		panic(fmt.Sprintf("%+v", what))
	}
}

func code(err error) string {
	var failure *linger.GenericOpenAPIError
	if errors.As(err, &failure) {
		if problem, ok := failure.Model().(linger.Problem); ok {
			return problem.Code
		}
	}
	return fmt.Sprint(err)
}

func main() {
	configuration := linger.NewConfiguration()
	configuration.Servers = linger.ServerConfigurations{{URL: os.Getenv("LINGER_URL")}}
	configuration.AddDefaultHeader("Authorization", "Bearer "+os.Getenv("LINGER_TOKEN"))
	client, ctx := linger.NewAPIClient(configuration), context.Background()

	seconds, steps := 0.05, "1s"
	spec := linger.NewJobSpec("go")
	spec.SetId("go:1")
	spec.SetDelay(linger.Duration{Float64: &seconds})
	spec.SetRetry([]linger.Duration{{String: &steps}})
	spec.SetBody(map[string]any{"n": 1})
	added, _, err := client.JobsAPI.AddJob(ctx).JobSpec(*spec).Execute()
	check(err == nil && added.Id == "go:1" && added.MaxAttempts == 2, added, err)

	job, _, err := client.WorkersAPI.PopJob(ctx, "go").Wait("5s").Execute()
	check(err == nil && job.Late >= 0 && job.Attempt == 1, job, err)
	_, err = client.WorkersAPI.FinishJob(ctx, "go:1").Receipt("0123456789abcdef0123456789abcdef").Execute()
	check(code(err) == "lease_lost", err)
	// Without a body the client sends null.
	_, err = client.WorkersAPI.FinishJob(ctx, "go:1").Receipt(job.Receipt).Execute()
	check(err == nil, err)
	_, _, err = client.JobsAPI.AddJob(ctx).JobSpec(*linger.NewJobSpec("not a topic")).Execute()
	check(code(err) == "invalid_job", err)
	paused, _, err := client.TopicsAPI.PauseTopic(ctx, "go").Execute()
	check(err == nil && paused.Paused.Intake && paused.NextDueAt.Get() == nil, paused, err)
	batch := linger.NewJobSpecs([]linger.JobSpec{*linger.NewJobSpec("go")})
	results, _, err := client.BatchesAPI.AddJobs(ctx).JobSpecs(*batch).Execute()
	check(err == nil && results.Results[0].Problem.Code == "intake_paused", results, err)
}
