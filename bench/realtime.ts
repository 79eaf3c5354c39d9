import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { residentBytes } from '../activities/child-process/memory.ts'
import { createKey, createUser } from '../db/accounts/accounts.ts'
import { openDatabase } from '../db/database.ts'
import { registerHost } from '../db/hosts/hosts.ts'
import { MiB } from '../lib/bytes.ts'
import { newAppId } from '../policy/ids.ts'
import { quantile, verdict, withSides } from './kit/sides.ts'

/**
 * Listeners of live streams on one API process, ten events a second each, over a host's own server. The delay is from the moment
 * a program prints to the moment a listener reads. Goal with 1,000: p99 under 500 ms, the API's memory grows by less than 150 MB.
 */
const listeners = Number(process.argv[2] ?? 1000)
const seconds = Number(process.argv[3] ?? 30)
const applications = Number(process.argv[4] ?? 40)
const hostId = 'bench'

const sockets: Socket[] = []
const heard = { delays: [] as number[], statuses: 0, lost: 0, measuring: false }
await withSides(async ({ databaseUrl, masterKey, program, berth }) => {
  const host = await program<{ url: string }>('./live-host.ts', [masterKey, hostId])
  const { key, appIds } = await seed(databaseUrl, masterKey, host.url)
  const { child: api, url: base } = await berth()
  const port = Number(new URL(base).port)

  // What the first streams load is not theirs.
  for (let n = 0; n < 20; n++) await listen(port, key, appIds[n % applications]!)
  await sleep(5000)
  const before = residentBytes(api.pid!)
  for (let n = 20; n < listeners; n++) await listen(port, key, appIds[n % applications]!)
  await sleep(2000)
  heard.measuring = true
  const cpuBefore = cpuSeconds(api)
  await sleep(seconds * 1000)
  heard.measuring = false
  report((residentBytes(api.pid!) - before) / MiB, (cpuSeconds(api) - cpuBefore) / seconds)
}).finally(() => {
  for (const socket of sockets) socket.destroy()
})

function report(grownMb: number, cores: number): void {
  const at = (share: number) => quantile(heard.delays, share)
  const events = (heard.delays.length + heard.statuses) / seconds
  console.log(
    `listeners       ${listeners} on ${applications} applications, ${heard.lost} lost, ${events.toFixed(0)} events/s`,
  )
  console.log(
    `delay           p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, longest ${at(1)} ms (${verdict('p99 under 500 ms', at(0.99) < 500)})`,
  )
  console.log(
    `API process     ${grownMb.toFixed(0)} MB more (${verdict('under 150 MB', grownMb < 150)}), ${(cores * 100).toFixed(0)} % of a core`,
  )
}

async function listen(port: number, key: string, appId: string): Promise<void> {
  const socket = connect(port, '127.0.0.1')
  sockets.push(socket)
  socket.write(`GET /v2/apps/${appId}/realtime HTTP/1.1\r\nHost: x\r\nAuthorization: ${key}\r\n\r\n`)
  const [first] = await once(socket.setEncoding('latin1'), 'data')
  if (!String(first).startsWith('HTTP/1.1 200')) throw new Error(String(first))
  socket.on('data', (text: unknown) => {
    if (!heard.measuring) return
    const now = Date.now()
    for (const [, printed] of String(text).matchAll(/data: \x01(\d{13}) /g)) heard.delays.push(now - Number(printed))
    heard.statuses += String(text).split('event: status').length - 1
  })
  socket.once('close', () => {
    if (heard.measuring) heard.lost++
  })
}

async function seed(url: string, masterKey: string, readUrl: string): Promise<{ key: string; appIds: string[] }> {
  const db = openDatabase({ url, pool: 1 })
  const user = await createUser(db, { name: 'Bench', email: 'bench@example.org', plan: 'enterprise-32' })
  const { key } = await createKey(db, masterKey, { userId: user.id })
  await registerHost(db, { id: hostId, address: '127.0.0.1', readUrl, memoryMb: 1, diskMb: 1, protections: {} })
  await db('hosts').update({ last_seen_at: '2100-01-01' })
  const appIds = Array.from({ length: applications }, newAppId)
  const row = { owner_id: user.id, language: 'javascript', version: 'recommended', runtime_version: '22', ram_mb: 512 }
  await db('apps').insert(appIds.map(id => ({ ...row, id, name: id, cpu: 1, host_id: hostId, status: 'running' })))
  await db.destroy()
  return { key, appIds }
}

function cpuSeconds({ pid }: ChildProcess): number {
  const [user, system] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ').slice(11, 13)
  return (Number(user) + Number(system)) / 100
}
