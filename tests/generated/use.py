"""Calls a running server by the generated Python client: each kind of value once, and each optional body left out."""

import os

from linger_client import AuthenticatedClient
from linger_client.api.batches import add_jobs, finish_jobs, pop_jobs
from linger_client.api.dead_letters import list_dead, requeue_dead, requeue_job
from linger_client.api.jobs import add_job, get_job, patch_job
from linger_client.api.operations import get_metrics, get_readiness, get_version
from linger_client.api.topics import get_topic, pause_topic, put_topic, resume_topic
from linger_client.api.workers import bury_job, finish_job, pop_job, pop_job_by_post, release_job, touch_job
from linger_client.models import (
    Bury,
    DeadPage,
    Finish,
    FinishJob,
    FinishJobs,
    Health,
    Job,
    JobPatch,
    JobSpec,
    JobSpecs,
    PopJobs,
    Problem,
    Release,
    Requeued,
    ReservedJob,
    ReservedJobs,
    Results,
    TopicSettings,
    TopicView,
    Touch,
    Version,
)

client = AuthenticatedClient(base_url=os.environ["LINGER_URL"], token=os.environ["LINGER_TOKEN"])


def pop() -> ReservedJob:
    job = pop_job.sync("python", client=client, wait="5s")
    assert isinstance(job, ReservedJob), job
    return job


spec = JobSpec(topic="python", id="python:1", delay=0.05, retry=["1s", 2.5], body={"n": [1, None]})
added = add_job.sync(client=client, body=spec)
assert isinstance(added, Job) and added.state in ("delayed", "ready") and added.body == {"n": [1, None]}, added
assert add_job.sync_detailed(client=client, body=spec).headers["idempotent-replayed"] == "true"

job = pop()
assert job.id == "python:1" and job.late >= 0 and job.attempt == 1, job
touched = touch_job.sync(job.id, client=client, body=Touch(receipt=job.receipt, ttr="5m"))
assert isinstance(touched, Job) and touched.state == "reserved", touched
released = release_job.sync(job.id, client=client, receipt=job.receipt, body=Release(delay=0, reason="again"))
assert isinstance(released, Job) and released.state == "ready", released
job = pop()
buried = bury_job.sync(job.id, client=client, body=Bury(receipt=job.receipt, reason="no use"))
assert isinstance(buried, Job) and buried.state == "dead", buried
page = list_dead.sync("python", client=client, limit=10)
assert isinstance(page, DeadPage) and page.jobs[0].reason == "no use", page
assert isinstance(requeue_job.sync(job.id, client=client), Job)
patched = patch_job.sync(job.id, client=client, body=JobPatch(ttr=30))
assert isinstance(patched, Job) and patched.ttr == 30, patched

reserved = pop_job_by_post.sync("python", client=client)
assert isinstance(reserved, ReservedJob), reserved
refused = finish_job.sync(job.id, client=client, receipt=job.receipt)
assert isinstance(refused, Problem) and refused.code == "lease_lost" and "earlier" in refused.detail, refused
done = finish_job.sync_detailed(job.id, client=client, body=Finish(receipt=reserved.receipt))
assert done.status_code == 204, done
gone = get_job.sync(job.id, client=client)
assert isinstance(gone, Problem) and gone.code == "job_not_found", gone
assert pop_job.sync_detailed("python", client=client).status_code == 204

wrong = add_job.sync(client=client, body=JobSpec(topic="not a topic", delay=-1))
assert isinstance(wrong, Problem) and wrong.code == "invalid_job" and wrong.errors, wrong

jobs = JobSpecs(jobs=[JobSpec(topic="python"), JobSpec(topic="python", delay="1h"), JobSpec(topic="no topic")])
results = add_jobs.sync(client=client, body=jobs)
assert isinstance(results, Results) and [result.status for result in results.results] == [201, 201, 422], results
batch = pop_jobs.sync(client=client, body=PopJobs(topics=["python"], max_=10, wait=1))
assert isinstance(batch, ReservedJobs) and len(batch.jobs) == 1, batch
ends = FinishJobs(jobs=[FinishJob(id=batch.jobs[0].id, receipt=batch.jobs[0].receipt), FinishJob(id="nobody")])
results = finish_jobs.sync(client=client, body=ends)
assert isinstance(results, Results) and [result.status for result in results.results] == [204, 404], results

topic = put_topic.sync("python", client=client, body=TopicSettings(ttr="5m", require_receipt=True))
assert isinstance(topic, TopicView) and topic.settings.ttr == 300 and topic.counts.delayed == 1, topic
paused = pause_topic.sync("python", client=client)
assert isinstance(paused, TopicView) and paused.paused.delivery and paused.paused.intake, paused
resumed = resume_topic.sync("python", client=client)
assert isinstance(resumed, TopicView) and not resumed.paused.delivery, resumed
seen = get_topic.sync("python", client=client)
assert isinstance(seen, TopicView) and seen.oldest_overdue_at is None, seen
requeued = requeue_dead.sync("python", client=client)
assert isinstance(requeued, Requeued) and requeued.requeued == 0, requeued

health = get_readiness.sync(client=client, verbose="")
assert isinstance(health, Health) and health.status == "ok", health
version = get_version.sync(client=client)
assert isinstance(version, Version) and version.engine == "embedded", version
assert "linger_jobs" in str(get_metrics.sync(client=client))
