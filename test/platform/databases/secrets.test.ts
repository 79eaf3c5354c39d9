import { spawn } from 'node:child_process'
import { createPrivateKey, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'ava'
import { databasePasswordKey, ensureAuthority } from '../../../db/databases/authorities.ts'
import { ignoreError } from '../../../lib/async/ignore-error.ts'
import { databasePassword, platformPassword } from '../../../policy/databases/passwords.ts'
import { databaseLaneId } from '../../../workflows/ids.ts'
import { testKeys } from '../../kit/actors/api.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { customers } from '../../kit/databases/customers.ts'
import { unzipped } from '../../kit/databases/unzipped.ts'
import { bareDocker } from '../../kit/hosts/host-remains.ts'
import { logSink } from '../../kit/log-sink.ts'
import { watchMachine } from '../../kit/platform/machine-watch.ts'
import { testPlatform } from '../../kit/platform/platform.ts'
import { historyOf, largeFilesWith, searchFor, tableTexts } from '../../kit/platform/secret-search.ts'
import { zipOf } from '../../kit/zips.ts'

const sink = logSink()
const started = testPlatform({
  log: sink.log,
  // No engine fits into the second one: creations on it fail.
  hosts: { a: { DISK_MB_PER_256MB: '256' }, small: { DISK_MB_PER_256MB: '4' } },
  settings: { DATABASE_ENGINES: 'mongo,mysql,redis,postgres', MONGO_STAND_IN: 'on' },
})

/** Without a cache the images are created first, alongside the other tests. */
const imageSeconds = 1200
const timeoutMs = 1_800_000

const offers = [
  ['redis', '8', 512],
  ['postgres', '17', 1024],
  ['mysql', '9', 1024],
  ['mongo', '8', 1024],
] as const

/** What only its scalar can be recognized by: the part of a private key that is in no certificate. */
function partsOf(pem: string): string[] {
  const [, second] = pem.split('\n').filter(line => !line.startsWith('-----'))
  const { d } = createPrivateKey(pem).export({ format: 'jwk' })
  return [second!, Buffer.from(d!, 'base64url').toString('hex'), d!]
}

test('a password or key of a database is in nothing that operators read, and in no file but those of its engine', async t => {
  t.timeout(timeoutMs)
  const platform = await started
  const { db, base, api } = platform
  const ana = await api.makeUser()
  const as = api.as(ana)
  const [host, small] = ['a', 'small'].map(name => platform.hostId(name)) as [string, string]
  await platform.until(
    async () => {
      const rows = await db('hosts').select('database_images')
      return rows.every(({ database_images: images }) =>
        ['redis:8', 'postgres:17', 'mysql:9', 'mongo-stand-in:8'].every(image => images[`berth/${image}`] === 'ready'),
      )
    },
    imageSeconds,
    'the images of all engines',
  )
  const machine = watchMachine([host, small])
  t.teardown(() => machine.stop())
  const answers: string[] = []
  const request = async (method: string, path: string, body?: unknown, headers?: Record<string, string>) =>
    as.request(method, path, { ...(body !== undefined && { body: JSON.stringify(body) }), ...(headers && { headers }) })
  const send = async (method: string, path: string, body?: unknown, headers?: Record<string, string>) => {
    const answer = await request(method, path, body, headers)
    if (answer.status >= 300) throw new Error(`${method} ${path} answered ${answer.status}: ${answer.text}`)
    return answer.body.response
  }
  const read = async (path: string) => void answers.push((await as.get(path)).text)
  const secrets = new Map<string, string[]>()

  await db('hosts').where({ id: small }).update({ draining: true })
  /** Creates one, and takes it through everything that handles its secrets. */
  async function live([type, version, memory]: (typeof offers)[number]) {
    const body = { name: `My ${type}`, type, version, memory }
    let headers = {}
    let created: Awaited<ReturnType<typeof send>>
    // On a busy machine a creation may take longer than a caller is kept waiting; it is cancelled then.
    for (let time = 1; !created; time++) {
      headers = { 'idempotency-key': `create-${type}-${time}` }
      created = await send('POST', '/v2/databases', body, headers).catch(error => {
        if (time === 8 || !/took too long/.test(error.message)) throw error
      })
    }
    const { id, password, certificate } = created
    t.is((await send('POST', '/v2/databases', body, headers)).password, password, 'the answer is repeated')
    const path = `/v2/databases/${id}`
    const [key = '', , authority = ''] = Buffer.from(certificate, 'base64')
      .toString()
      .split(/(?<=-----END [A-Z ]+-----\n)/)
    const { port } = await send('GET', path)
    const remote = { host: '127.0.0.1', port, authority, servername: `db-${id}.${base.config.databases.domain}` }
    const connect = (given: string) => customers[type](remote, given)
    const first = await connect(password)
    await first.write(1)
    first.end()
    const wrong = `wrong-${randomBytes(12).toString('hex')}`
    await t.throwsAsync(connect(wrong), undefined, type)
    const rotated = (await send('POST', `${path}/credentials/reset`, { reset: 'password' })).password
    await t.throwsAsync(connect(password), undefined, type)
    await send('POST', `${path}/credentials/reset`, { reset: 'certificate' })
    await send('POST', `${path}/snapshots`)
    const [snapshot] = await platform.until(
      async () => {
        const { response } = (await as.get(`${path}/snapshots`)).body
        return response.length > 0 && response
      },
      240,
      `the snapshot of ${type}`,
    )
    const address = new URL(snapshot.url)
    const zip = Buffer.from(await (await fetch(api.filesUrl + address.pathname + address.search)).arrayBuffer())
    await send('POST', `${path}/snapshots/restore`, { snapshotId: snapshot.name, versionId: snapshot.version_id })
    await platform.until(
      async () => !['queued', 'running'].includes((await send('GET', `${path}/snapshots/restore`)).state),
      240,
      `the restore of ${type}`,
    )
    const running = async () => {
      const list = await bareDocker.listContainers({
        filters: { label: [`berth.database=${id}`, 'berth.role=database'] } as never,
      })
      return list[0]?.Id
    }
    const before = await bareDocker.getContainer((await running())!).inspect()
    await bareDocker.getContainer(before.Id).kill({ signal: 'SIGKILL' })
    await platform.until(
      async () => {
        const now = await running()
        return now && (await bareDocker.getContainer(now).inspect()).State.StartedAt !== before.State.StartedAt
      },
      120,
      `${type} is started again`,
    )
    const again = await platform.until(() => connect(rotated).catch(() => null), 120, `${type} serves again`)
    t.true((await again.read()).includes(1), type)
    again.end()
    for (const place of ['', '/status', '/metrics', '/logs', '/snapshots', '/snapshots/restore'])
      await read(path + place)
    const { certificate: latest } = await platform.until(
      () => send('GET', `${path}/credentials/certificate`).catch(() => null),
      60,
      `the row of ${type} says that it runs`,
    )
    secrets.set(`${type}: passwords`, [password, rotated, wrong])
    secrets.set(
      `${type}: keys of the client`,
      [
        key,
        Buffer.from(latest, 'base64')
          .toString()
          .split(/(?<=-----END [A-Z ]+-----\n)/)[0]!,
      ].flatMap(partsOf),
    )
    return { type, id, zip }
  }
  const databases: Awaited<ReturnType<typeof live>>[] = []
  for (const offer of offers) databases.push(await live(offer))

  await db('hosts').where({ id: small }).update({ draining: false })
  await db('hosts').where({ id: host }).update({ draining: true })
  const failed = await request('POST', '/v2/databases', {
    name: 'Too large',
    type: 'postgres',
    version: '17',
    memory: 1024,
  })
  t.is(failed.body.code, 'DATABASE_CREATION_FAILED', failed.text)
  answers.push(failed.text)
  const [operation] = await db('operations')
    .where({ target_type: 'database', state: 'error' })
    .orderBy('created_at', 'desc')
  const ids = [...databases.map(({ id }) => id), operation.target_id]
  await read('/v2/account/audit')

  const key = await databasePasswordKey(db, testKeys)
  const authority = await ensureAuthority(db, testKeys, () => Promise.reject(new Error('there is one')))
  secrets.set('the key of passwords', [key.toString('hex'), key.toString('base64')])
  secrets.set('the key of the authority', partsOf(authority.privateKey))
  secrets.set(
    'passwords of the platform',
    ids.map(id => platformPassword(key, id)),
  )
  secrets.set('the password of a failed creation', [databasePassword(key, operation.target_id, 1)])
  const all = [...secrets.values()].flat()

  async function leaks(): Promise<string[]> {
    const sources: Record<string, string> = {
      ...(await tableTexts(db)),
      'the log': sink.text(),
      'a history': (await Promise.all(ids.map(id => historyOf(base.config, id, databaseLaneId(id))))).join('\n'),
      'a container': machine.containers(),
      'the output of a container': machine.output(),
      'a command line': machine.commandLines(),
      'an environment': machine.environments(),
      'an answer': answers.join('\n'),
    }
    for (const { type, zip } of databases)
      for (const [name, content] of Object.entries(await unzipped(zip)))
        sources[`the snapshot of ${type}: ${name}`] = content.toString('latin1')
    const found: string[] = []
    for (const [what, group] of secrets) {
      const holds = searchFor(group)
      for (const [source, text] of Object.entries(sources)) if (holds(text)) found.push(`${what}: ${source}`)
    }
    const files = await largeFilesWith(base.folder, all)
    return [...found, ...files.map(file => file.replace(base.folder, ''))].sort()
  }
  t.deepEqual(await leaks(), [])

  t.true(machine.count() > 2 * offers.length, 'copies are seen, not only what serves')
  for (const id of ids)
    t.true((await historyOf(base.config, id, databaseLaneId(id))).includes(id), 'histories are read')

  // What is there is found: a secret in each place, in another spelling each time.
  const [text] = secrets.get('redis: passwords') as [string]
  const spelled = Buffer.from(`x${text}`).toString('base64')
  const file = join(base.folder, 'planted')
  await writeFile(file, `a${spelled}`)
  await db('databases').where({ id: databases[0]!.id }).update({ name: text })
  sink.log.info({ url: `a://b:${encodeURIComponent(text)}@c` }, 'planted')
  answers.push(Buffer.from(text).toString('hex'))
  databases[0]!.zip = Buffer.from(zipOf({ planted: `-${text}-` }))
  const child = spawn('sleep', ['600'], { env: { ...process.env, PLANTED: spelled }, argv0: `sleep-${text}` })
  const container = await bareDocker.createContainer({
    ...{ Image: 'berth/redis:8', Cmd: ['echo', text], Labels: { 'berth.host': host } },
  })
  t.teardown(async () => {
    child.kill('SIGKILL')
    await once(child, 'exit')
    await container.remove({ force: true }).catch(ignoreError('the watch of the host may have removed it'))
  })
  await container.start()
  await comesTrue(
    () =>
      [machine.containers(), machine.output(), machine.commandLines()].every(seen => seen.includes(text)) &&
      machine.environments().includes(spelled),
  )
  t.deepEqual(await leaks(), [
    '/planted',
    ...[
      ...['a command line', 'a container', 'an answer', 'an environment', 'databases', 'the log'],
      ...['the output of a container', 'the snapshot of redis: planted'],
    ].map(source => `redis: passwords: ${source}`),
  ])
})
