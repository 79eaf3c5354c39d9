import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { type AddressInfo, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer } from 'node:tls'
import test from 'ava'
import { pino } from 'pino'
import type { Finding } from '../../../cli/doctor/findings.ts'
import { databaseWire, temporalWire } from '../../../cli/doctor/wires.ts'
import { namespaceAnswers } from '../../../cli/services/temporal.ts'
import { parseConfig } from '../../../policy/config.ts'
import { openTemporal } from '../../../workers/connect.ts'
import { unpolled } from '../../../workers/poller-health.ts'
import { connectTemporal, refusalLog, temporalRefusal } from '../../../workers/temporal/temporal-connection.ts'
import { startWorker } from '../../../workers/temporal/temporal-worker.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { log, testPlatform } from '../../kit/platform/platform.ts'
import { certificates } from '../../kit/servers/certificates.ts'
import { testTemporal } from '../../kit/servers/temporal.ts'

const folder = mkdtempSync(join(tmpdir(), 'berth-temporal-tls-'))
const make = certificates(folder)
const ca = make.authority('ca').certificate
const strangers = make.authority('strangers').certificate
const server = make.signed('server', 'ca', 'temporal.test')
const client = make.signed('client', 'ca', 'berth.test')
const stranger = make.signed('stranger', 'strangers', 'berth.test')

const temporal = await testTemporal()
const [host, port] = temporal.address.split(':') as [string, string]
/** Temporal as an operator runs it: with a certificate, and for clients that have one of its authority only. */
const front = createServer(
  {
    key: readFileSync(server.key),
    cert: readFileSync(server.certificate),
    ca: readFileSync(ca),
    requestCert: true,
    ALPNProtocols: ['h2'],
  },
  socket => {
    const inner = connect(Number(port), host)
    for (const end of [socket, inner]) end.on('error', () => {})
    socket.pipe(inner).pipe(socket)
  },
).listen(0, '127.0.0.1')
await once(front, 'listening')
const platform = testPlatform({ hosts: {}, worker: false, api: false, temporal: async () => temporal })
const address = `127.0.0.1:${(front.address() as AddressInfo).port}`
test.after.always(() => {
  front.close()
  rmSync(folder, { recursive: true })
})

const configOf = (own: Record<string, string>) =>
  parseConfig({ TEMPORAL_ADDRESS: address, QUEUE_PREFIX: temporal.queuePrefix, ...own }, '/')
const right = {
  TEMPORAL_TLS_CA: ca,
  TEMPORAL_TLS_CERT: client.certificate,
  TEMPORAL_TLS_KEY: client.key,
  TEMPORAL_TLS_SERVER_NAME: 'temporal.test',
}

test('clients, workers and commands reach a Temporal that requires certificates', async t => {
  t.timeout(120_000)
  const inline = Object.entries(right).map(([name, value]) => [
    name,
    value.startsWith('/') ? readFileSync(value, 'utf8').replaceAll('\n', '\\n') : value,
  ])
  for (const config of [configOf(right), configOf(Object.fromEntries(inline))]) {
    t.is(await temporalRefusal(config), null)
    await namespaceAnswers(config, 'default')
  }
  const config = configOf(right)
  const taskQueue = `${config.queuePrefix}over-tls`
  const worker = await startWorker(config, log, { taskQueue, activities: { nothing: async () => {} } })
  const asking = openTemporal(config)
  try {
    await comesTrue(async () => (await unpolled(asking, [taskQueue])).length === 0)
    t.pass()
  } finally {
    await worker.stop()
    await asking.connection.close()
  }
})

const wrong: [string, Record<string, string>, RegExp][] = [
  ['another authority', { ...right, TEMPORAL_TLS_CA: strangers }, /not signed by the authority in TEMPORAL_TLS_CA/],
  ['another name', { ...right, TEMPORAL_TLS_SERVER_NAME: 'other.test' }, /set TEMPORAL_TLS_SERVER_NAME/],
  ['no certificate', { ...right, TEMPORAL_TLS_CERT: '', TEMPORAL_TLS_KEY: '' }, /refuses the certificate of this/],
  [
    'a certificate of strangers',
    { ...right, TEMPORAL_TLS_CERT: stranger.certificate, TEMPORAL_TLS_KEY: stranger.key },
    /set TEMPORAL_TLS_CERT and TEMPORAL_TLS_KEY to a pair/,
  ],
  [
    'a key of another certificate',
    { ...right, TEMPORAL_TLS_KEY: stranger.key },
    /must be PEM certificates with their key/,
  ],
  ['a file that is not there', { ...right, TEMPORAL_TLS_CA: `${folder}/none` }, /TEMPORAL_TLS_CA names cannot be read/],
  ['clear text', {}, /requires TLS: set TEMPORAL_TLS=on/],
  ['TLS where there is none', { ...right, TEMPORAL_ADDRESS: temporal.address }, /does not use TLS/],
]
for (const [what, settings, words] of wrong)
  test(`with ${what} a process does not start, and reports what to do`, async t => {
    t.timeout(120_000)
    const config = configOf(settings)
    await t.throwsAsync(connectTemporal(config, 2000), { message: words })
    const options = { taskQueue: `${config.queuePrefix}never`, activities: { nothing: async () => {} } }
    await t.throwsAsync(startWorker(config, log, options), { message: words })
  })

for (const [what, words] of [
  ['clear text', /requires TLS: set TEMPORAL_TLS=on.* this process accepts requests/],
  ['another authority', /not signed by the authority in TEMPORAL_TLS_CA.* this process accepts requests/],
] as const)
  test(`with ${what} an API process continues, and logs what to do`, async t => {
    t.timeout(120_000)
    const [, settings] = wrong.find(([name]) => name === what)!
    const { api, url } = await (await platform).startApiProcess({ TEMPORAL_ADDRESS: address, ...settings })
    t.teardown(() => api.kill('SIGKILL'))
    await comesTrue(async () => words.test(api.output()))
    t.is((await fetch(`${url}/v2/users/me`)).status, 401)
  })

test('a process that continues without Temporal logs each reason once, and again after Temporal has answered', async t => {
  const lines: string[] = []
  const own = pino({}, { write: line => void lines.push(JSON.parse(line).msg) })
  let answers = false
  const tell = refusalLog(configOf({}), own, async () => answers || Promise.reject(new Error('away')))
  await tell()
  await tell()
  t.is(lines.length, 1)
  answers = true
  await tell()
  t.is(lines.length, 1, 'what answers is no reason')
  answers = false
  await tell()
  t.is(lines.length, 2)
  const nobody = refusalLog({ ...configOf({}), temporalAddress: '127.0.0.1:9' }, own, async () => Promise.reject())
  await nobody()
  t.is(lines.length, 2, 'nor is one that is merely away')
})

test('contradictory settings are named', t => {
  t.throws(() => configOf({ ...right, TEMPORAL_TLS: 'off' }), { message: /TEMPORAL_TLS is "off"/ })
  t.throws(() => configOf({ TEMPORAL_TLS_CERT: 'a' }), { message: /TEMPORAL_TLS_CERT and TEMPORAL_TLS_KEY/ })
  t.is(configOf({ TEMPORAL_TLS_CA: '' }).temporalTls, null)
  t.like(configOf({ TEMPORAL_API_KEY: 'k' }), { temporalApiKey: 'k', temporalTls: { ca: null } })
})

test('the doctor warns of clear-text connections to other machines', t => {
  const words = ({ state, remedy }: Finding) => (remedy ? `${state}: ${remedy}` : state)
  const wire = (temporalAddress: string, own = {}) =>
    words(temporalWire(configOf({ TEMPORAL_ADDRESS: temporalAddress, ...own })))
  for (const here of ['127.0.0.1:7233', 'localhost:7233', '[::1]:7233']) t.is(wire(here), 'this machine only')
  t.regex(wire('10.0.0.5:7233'), /^IN CLEAR TEXT to 10\.0\.0\.5.*: set TEMPORAL_TLS_CA/)
  t.regex(wire('10.0.0.5:7233', { TEMPORAL_TLS: 'on' }), /TLS to 10\.0\.0\.5, without client authentication/)
  t.is(wire('10.0.0.5:7233', right), 'TLS to 10.0.0.5')
  const database = (databaseUrl: string) => words(databaseWire({ databaseUrl }))
  t.is(database('postgres://berth@127.0.0.1:5432/berth'), 'this machine only')
  t.is(database('postgres:///berth?host=/run/postgresql'), 'this machine only')
  t.regex(database('postgres://berth@db.example:5432/berth'), /^IN CLEAR TEXT to db\.example: add sslmode=verify-full/)
  t.regex(database('postgres://berth@db.example/berth?sslmode=no-verify'), /SERVER NOT VERIFIED/)
  t.regex(database('postgres://berth@db.example/berth?sslmode=verify-full&sslrootcert=/ca.pem'), /^TLS to db\.example/)
})
