import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

export interface Expected {
  address: string
  port: number
  host: string
  text: string
  timeoutMs?: number
  /** Between two requests. */
  everyMs?: number
}

/** Requests the page until the right text comes. Throws after the deadline. */
export async function untilAnswers({ timeoutMs = 60_000, everyMs = 5, ...expected }: Expected): Promise<void> {
  const { address, port, host, text } = expected
  const end = Date.now() + timeoutMs
  while (Date.now() < end) {
    if ((await get(address, port, host)).includes(text)) return
    await sleep(everyMs)
  }
  throw new Error(`${host} did not answer "${text}" within ${timeoutMs} ms`)
}

function get(address: string, port: number, host: string): Promise<string> {
  return new Promise(resolve => {
    const call = request({ host: address, port, path: '/', headers: { host }, agent: false, timeout: 2000 }, answer => {
      let body = ''
      answer.setEncoding('utf8')
      answer.on('data', chunk => {
        body += chunk
      })
      answer.on('end', () => resolve(body))
      answer.on('error', () => resolve(''))
    })
    call.on('timeout', () => call.destroy())
    call.on('error', () => resolve(''))
    call.end()
  })
}
