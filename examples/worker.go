package main // A Linger worker: takes the jobs of $TOPIC at $LINGER_URL one by one and prints their bodies.

import "encoding/json"
import "fmt"
import "net/http"
import "os"
import "strings"
import "time"

func post(path, body string) (status int, job struct{ ID, Receipt, Body any }) {
	answer, err := http.Post(os.Getenv("LINGER_URL")+path, "application/json", strings.NewReader(body))
	if err == nil {
		defer answer.Body.Close()
		status, err = answer.StatusCode, json.NewDecoder(answer.Body).Decode(&job)
	}
	return status, job // status 0: the server is away
}
func main() {
	for http.DefaultClient.Timeout = 40 * time.Second; ; {
		switch status, job := post("/topics/"+os.Getenv("TOPIC")+"/pop?wait=20s", ""); {
		case status == 200 && work(job.Body) == nil: // 404 or 409 here: done already, or not ours any more
			post(fmt.Sprintf("/jobs/%v/finish?receipt=%v", job.ID, job.Receipt), "")
		case status == 200: // if this is lost too, the TTR brings the job back
			post(fmt.Sprintf("/jobs/%v/release", job.ID), fmt.Sprintf(`{"receipt":"%v"}`, job.Receipt))
		case status != 204: // 204: nothing came due. Otherwise away or overloaded: back off
			time.Sleep(2 * time.Second)
		}
	}
}
func work(body any) error { return json.NewEncoder(os.Stdout).Encode(body) } // may run twice for a job
