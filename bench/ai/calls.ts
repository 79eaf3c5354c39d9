import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { createKey, createUser } from '../../db/accounts/accounts.ts'
import { openDatabase } from '../../db/database.ts'

/** Tokens of each answer. */
export const answerTokens = 64
/** A conversation with this word is never answered. */
export const silent = 'silence'

/** One side: where it is asked, and its process. */
export interface Gateway {
  url: string
  pid: number
}

/** Keys of accounts whose plan has two slots and no pause between calls. */
export async function seedKeys(databaseUrl: string, masterKey: string, accounts: number): Promise<string[]> {
  const db = openDatabase({ url: databaseUrl, pool: 1 })
  const keys: string[] = []
  for (let n = 0; n < accounts; n++) {
    const user = await createUser(db, { name: 'Bench', email: `bench-${n}@example.org`, plan: 'enterprise-32' })
    keys.push((await createKey(db, masterKey, { userId: user.id })).key)
  }
  await db.destroy()
  return keys
}

export interface Load {
  /** Milliseconds of each call. */
  times: number[]
  perSecond: number
  /** Milliseconds of the gateway's processor for each call. */
  cpuMs: number
}

/** Calls one after the other on each of some connections, each with the next key, for some seconds. */
export async function load(gateway: Gateway, keys: readonly string[], at: number, seconds: number): Promise<Load> {
  const agent = new Agent({ keepAlive: true, maxSockets: at })
  const times: number[] = []
  let next = 0
  const cpuBefore = cpuSeconds(gateway.pid)
  const startedAt = performance.now()
  const end = startedAt + seconds * 1000
  const connection = async () => {
    while (performance.now() < end) {
      const callAt = performance.now()
      await call(gateway.url, keys[next++ % keys.length]!, agent)
      times.push(performance.now() - callAt)
    }
  }
  await Promise.all(Array.from({ length: at }, connection))
  const took = (performance.now() - startedAt) / 1000
  const cpuMs = ((cpuSeconds(gateway.pid) - cpuBefore) * 1000) / times.length
  agent.destroy()
  return { times, perSecond: times.length / took, cpuMs }
}

/** A few calls, one after the other. */
export async function warmUp({ url }: Gateway, keys: readonly string[], calls: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  for (const key of keys.slice(0, calls)) await call(url, key, agent)
  agent.destroy()
}

/** Between the beginnings of two calls that are held. */
export const pauseMs = 4

/** Begins calls that are not answered; the returned function leaves them. Rejects if one was answered. */
export function hold(gateway: Gateway, keys: readonly string[], calls: number) {
  const agent = new Agent({ keepAlive: true, maxSockets: calls })
  let isLeaving = false
  const answered = Promise.all(
    Array.from({ length: calls }, (_, n) =>
      // Not all at once: on a busy machine connections would time out.
      sleep(n * pauseMs)
        .then(() => call(gateway.url, keys[n % keys.length]!, agent, silent))
        .then(
          () => Promise.reject(new Error('a held call was answered')),
          error => isLeaving || Promise.reject(error),
        ),
    ),
  )
  return {
    answered,
    leave() {
      isLeaving = true
      agent.destroy()
    },
  }
}

function call(base: string, key: string, agent: Agent, text = 'What is a berth?'): Promise<void> {
  const body = JSON.stringify({ model: 'cubic', messages: [{ role: 'user', content: text }] })
  const headers = {
    authorization: `Bearer ${key}`,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  }
  return new Promise((resolve, reject) => {
    const outgoing = request(`${base}/v2/ai/chat/completions`, { method: 'POST', agent, headers }, answer => {
      let length = 0
      let last = ''
      answer.setEncoding('latin1').on('data', piece => {
        length += piece.length
        last = piece
      })
      answer.once('error', reject).once('end', () => {
        if (answer.statusCode === 200 && length > answerTokens * 5) resolve()
        else reject(new Error(`${answer.statusCode} ${last}`))
      })
    })
    outgoing.once('error', reject).end(body)
  })
}

function cpuSeconds(pid: number): number {
  const [user, system] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ').slice(11, 13)
  return (Number(user) + Number(system)) / 100
}
