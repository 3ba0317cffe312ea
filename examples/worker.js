#!/usr/bin/env node
// A Linger worker: takes the jobs of $TOPIC one by one and prints their bodies. Needs Node 18 or later.
// It reads LINGER_URL, LINGER_TOKEN and TOPIC. SIGTERM ends it after the job at hand.
const url = (process.env.LINGER_URL || 'http://127.0.0.1:9277').replace(/\/+$/, '')
const topic = process.env.TOPIC || 'hello'
const headers = { 'content-type': 'application/json' }
if (process.env.LINGER_TOKEN) headers.authorization = `Bearer ${process.env.LINGER_TOKEN}`
const poll = new AbortController()
const pause = () => new Promise(resolve => setTimeout(resolve, 2_000))
const complain = line => console.error(line)
const cause = error => `${error} ${error.cause || ''}`.trim()

// Do the work here. It may run twice for a job; throw an error to give the job back.
async function work(body) {
  console.log(JSON.stringify(body))
}

// Returns the status and the text of the answer; throws when no whole answer came.
async function call(method, path, body, signals = []) {
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(new Error('no answer in 40 s')), 40_000)
  for (const signal of signals) signal.addEventListener('abort', () => late.abort(signal.reason))
  try {
    const answer = await fetch(url + path, { method, headers, body: body && JSON.stringify(body), signal: late.signal })
    return [answer.status, await answer.text()]
  } finally {
    clearTimeout(timer)
  }
}

// Returns the next job, or nothing when none came due or the server did not give one.
async function pop() {
  try {
    const [status, text] = await call('GET', `/topics/${topic}/pop?wait=20s`, undefined, [poll.signal])
    if (status === 204) return undefined
    if (status === 200) {
      const job = JSON.parse(text)
      if (job?.id && job?.receipt) return job
    }
    complain(`pop: ${status} ${text.trim()}`)
  } catch (error) {
    if (poll.signal.aborted) return undefined
    complain(`pop: ${cause(error)}`)
  }
  await pause()
}

// Finishes or releases the job. Repeating is safe; if every try fails, the job's TTR brings it back.
async function settle(job, step, body) {
  for (let tries = 0; tries < 5; tries++) {
    try {
      const [status, text] = await call('POST', `/jobs/${job.id}/${step}`, body)
      if (status < 300) return
      complain(`${step} ${job.id}: ${status} ${text.trim()}`)
      if (status < 500) return // 404: it is gone already. 409: it has another holder by now.
    } catch (error) {
      complain(`${step} ${job.id}: ${cause(error)}`)
    }
    await pause()
  }
}

// Aborting the poll closes its connection, which hands a job that was about to come to another worker.
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => poll.abort())

async function main() {
  while (!poll.signal.aborted) {
    const job = await pop()
    if (!job) continue
    try {
      await work(job.body)
    } catch (error) {
      complain(`job ${job.id}: ${error}`)
      await settle(job, 'release', { receipt: job.receipt, reason: `${error}`.slice(0, 200) })
      continue
    }
    await settle(job, `finish?receipt=${job.receipt}`)
  }
}

main()
