#!/usr/bin/env node
// Adds a job that closes an order later: producer.js ORDER [DELAY]. Needs Node 18 or later.
// It reads LINGER_URL, LINGER_TOKEN and TOPIC. The job's id is made from the order's number, so adding it
// again changes nothing: the request is repeated until the server has answered.
const url = (process.env.LINGER_URL || 'http://127.0.0.1:9277').replace(/\/+$/, '')
const topic = process.env.TOPIC || 'order-close'
const headers = { 'content-type': 'application/json' }
if (process.env.LINGER_TOKEN) headers.authorization = `Bearer ${process.env.LINGER_TOKEN}`
const [order, delay = '30m'] = process.argv.slice(2)

// Sends the job until the server has answered; returns the exit code.
async function add(job) {
  for (let tries = 0, pause = 1_000; tries < 8; tries++, pause = Math.min(pause * 2, 30_000)) {
    try {
      const request = { method: 'POST', headers, body: JSON.stringify(job), signal: AbortSignal.timeout(10_000) }
      const answer = await fetch(url + '/jobs', request)
      const text = (await answer.text()).trim()
      if (answer.ok) { // 201: added. 200: an earlier try had added it.
        console.log(text)
        return 0
      }
      console.error(`add: ${answer.status} ${text}`)
      if (answer.status < 500) return 1 // the request is wrong, and repeating it does not help
    } catch (error) {
      console.error(`add: ${error} ${error.cause || ''}`)
    }
    await new Promise(resolve => setTimeout(resolve, pause))
  }
  console.error('add: the server did not take the job; it is safe to run this again')
  return 1
}

if (order === undefined) {
  console.error('usage: producer.js ORDER [DELAY]')
  process.exitCode = 1
} else {
  add({ topic, id: `orders:${order}:close`, delay, body: { order } }).then(code => { process.exitCode = code })
}
