import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

export interface Expected {
  address: string
  port: number
  host: string
  text: string
  timeoutMs?: number
}

/** Asks every 5 ms until the right text comes. Throws after the deadline. */
export async function untilAnswers({ address, port, host, text, timeoutMs = 60_000 }: Expected): Promise<void> {
  const end = Date.now() + timeoutMs
  while (Date.now() < end) {
    if ((await get(address, port, host)).includes(text)) return
    await sleep(5)
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
