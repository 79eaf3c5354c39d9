import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { unusedPort } from '../../cli/installation/ports.ts'
import { createKey } from '../../db/accounts/accounts.ts'
import { masterKey } from '../kit/actors/api.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { startEntry } from '../kit/platform/entry.ts'
import { rows } from '../kit/rows/rows.ts'
import { testDatabase } from '../kit/servers/database.ts'

// An API process as an operator sets it up: behind a proxy, with one host on another machine. What it looks for again and again is seen.

const hostAddress = '203.0.113.9'
const undo: (() => Promise<unknown>)[] = []
test.serial.after.always('end the process', async () => {
  for (const step of undo.reverse()) await step()
})
const kit = start(testDatabase())
test.before('start the process', async t => {
  t.timeout(120_000)
  await kit
})

async function start(database: ReturnType<typeof testDatabase>) {
  const { db, url } = await database
  // A host whose live streams report every second that the application does not run.
  const state = { status: 'exited', running: false, startedAt: null, exitCode: 0, oom: false }
  const host = createServer((_, answer) => {
    const tell = () => answer.write(`${JSON.stringify({ reading: { state, stats: null } })}\n`)
    const timer = setInterval(tell, 1000)
    answer.once('close', () => clearInterval(timer))
    tell()
  }).listen(0, '127.0.0.1')
  await once(host, 'listening')
  undo.push(async () => {
    host.closeAllConnections()
    host.close()
  })
  const make = rows(db)
  const readUrl = `http://127.0.0.1:${(host.address() as AddressInfo).port}`
  await make.host('h1', { address: hostAddress, readUrl })
  await db('hosts').update({ last_seen_at: '2100-01-01' })
  const user = await make.user()
  const { app } = await make.app(user.id)
  const { key } = await createKey(db, masterKey, { userId: user.id })

  const folder = mkdtempSync(join(tmpdir(), 'berth-api-rounds-'))
  undo.push(async () => rmSync(folder, { recursive: true, force: true }))
  const names = ['API_PORT', 'BLOB_PORT', 'S3_PORT', 'FILES_PORT', 'PUBLIC_PORT']
  const ports = Object.fromEntries(await Promise.all(names.map(async name => [name, String(await unusedPort())])))
  const api = startEntry('api', {
    ...{
      DATABASE_URL: url,
      BERTH_MASTER_KEY: masterKey,
      BERTH_DATA: folder,
      TEMPORAL_ADDRESS: '127.0.0.1:1',
      ...ports,
    },
    ...{ TRUSTED_PROXIES: '127.0.0.1', RATE_LIMIT_SCALE: '0.01', RATE_LIMIT_BLOCK_SECONDS: '77' },
  })
  undo.push(() => api.kill('SIGKILL'))
  await api.ready
  return { db, app, key, base: `http://127.0.0.1:${ports.API_PORT}` }
}

test('clients behind the proxy are counted by the address that it reports, and blocked for as long as the setting says', async t => {
  const { db, base } = await kit
  const from = async (address: string, times: number) => {
    const answers: [status: number, wait: number | null][] = []
    for (let n = 0; n < times; n++) {
      const answer = await fetch(`${base}/v2/service/status`, { headers: { 'x-forwarded-for': address } })
      await answer.arrayBuffer()
      const wait = answer.headers.get('retry-after')
      answers.push([answer.status, wait === null ? null : Number(wait)])
    }
    return answers
  }
  const answers = await from('203.0.113.10', 4)
  t.deepEqual(answers.slice(0, 3), Array(3).fill([200, null]))
  t.deepEqual(answers[3], [429, 77])
  t.is(
    await db('rate_limits')
      .where({ key: 'outside/203.0.113.10' })
      .then(found => found.length),
    1,
  )
  t.deepEqual(await from('203.0.113.11', 1), [[200, null]], 'others are not')
  t.deepEqual(await from(hostAddress, 9), Array(9).fill([200, null]), 'a host is no stranger')
})

test('a live stream keeps its slot for as long as it is open', async t => {
  const { db, app, key, base } = await kit
  const closing = new AbortController()
  t.teardown(() => closing.abort())
  const headers = { authorization: key }
  const answer = await fetch(`${base}/v2/apps/${app.id}/realtime`, { headers, signal: closing.signal })
  t.is(answer.status, 200)
  const place = () => db('realtime_listeners').where({ app_id: app.id }).first()
  const { id, expires_at: first } = await place()
  await t.notThrowsAsync(comesTrue(async () => (await place()).expires_at > first))
  t.is((await place()).id, id)
})
