#!/usr/bin/env node
// A Linger worker: takes the jobs of $TOPIC one by one and prints their bodies. Needs Node 18.
const { LINGER_URL: url = 'http://127.0.0.1:9277', TOPIC: topic = 'hello' } = process.env

async function work(body) { // May run twice for a job; throwing gives the job back.
  console.log(JSON.stringify(body))
}

async function call(method, path, body) {
  const [headers, signal] = [{ 'content-type': 'application/json' }, AbortSignal.timeout(40_000)]
  const answer = await fetch(url + path, { method, headers, signal, body: body && JSON.stringify(body) })
  if (answer.status === 404 || answer.status === 409) return // done already, or somebody else's by now
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status}`)
  return answer.status === 204 ? undefined : answer.json()
}

(async () => {
  for (;;) {
    try {
      const job = await call('GET', `/topics/${topic}/pop?wait=20s`)
      if (!job) continue // 204: nothing came due; ask again
      const failure = await work(job.body).then(() => null, error => error)
      if (failure) await call('POST', `/jobs/${job.id}/release`, { receipt: job.receipt, reason: `${failure}`.slice(0, 200) })
      else await call('POST', `/jobs/${job.id}/finish?receipt=${job.receipt}`)
    } catch (error) { // away or overloaded: back off; an unfinished job comes back by its TTR
      console.error(String(error))
      await new Promise(wake => setTimeout(wake, 2_000))
    }
  }
})()
