import test from 'ava'
import { databasesCommand } from '../../../cli/databases/databases.ts'
import { readVariables } from '../../../db/apps/app-variables.ts'
import { operatorHere } from '../../kit/actors/operator-command.ts'
import { customers } from '../../kit/databases/customers.ts'
import { testPlatform } from '../../kit/platform/platform.ts'
import { rows } from '../../kit/rows/rows.ts'

const started = testPlatform({ settings: { DATABASE_ENGINES: 'redis', DISK_MB_PER_256MB: '256' } })

test.serial(
  'a database that runs is explained with its figures and its log; what attaching writes opens it',
  async t => {
    t.timeout(1_500_000) // without a cache the image is made first
    const platform = await started
    const { db, base } = platform
    const ana = await platform.api.makeUser()
    const as = platform.api.as(ana)
    const isReady = async () =>
      (await db('hosts').first('database_images'))?.database_images['berth/redis:8'] === 'ready'
    await platform.until(isReady, 1200, 'the image of redis')
    const body = { name: 'cache', type: 'redis', version: '8', memory: 512 }
    const answer = await as.post('/v2/databases', JSON.stringify(body))
    t.is(answer.status, 200, answer.text)
    const { id, password, certificate } = answer.body.response
    const run = async (...args: string[]) => {
      const settings = { ...base.settings, HOST_NAME: platform.hostId('a') }
      const { stdout, stderr } = await operatorHere([databasesCommand], settings, 'databases', ...args)
      t.is(stderr, '')
      return stdout
    }
    const explain = async () => JSON.parse(await run('explain', id, '--json'))

    const story = await explain()
    t.deepEqual([story.database.state, story.problems, story.log_missing], ['running', [], null])
    t.like(story.container, { name: `berth-db-${id}-1`, status: 'running', oom: false })
    t.true(story.memory_bytes > 0)
    t.is(story.storage_mb, 512)
    t.regex(story.log_tail.join('\n'), /Ready to accept connections/)
    t.false(JSON.stringify(story).includes(password))
    t.regex(await run('list'), new RegExp(`^${id} .* redis 8 .* running for `, 'm'))

    const { app } = await rows(db).app(ana.id)
    await run('attach', id, app.id)
    const url = new URL((await readVariables(db, base.config.sealKeys, app.id)).values.get('CACHE_URL')!)
    const [, authority = ''] = /(-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n)$/.exec(
      Buffer.from(certificate, 'base64').toString(),
    )!
    const remote = { host: '127.0.0.1', port: Number(url.port), authority, servername: url.hostname }
    const customer = await customers.redis(remote, url.password)
    await customer.write(7)
    t.deepEqual(await customer.read(), [7])

    t.is((await as.post(`/v2/databases/${id}/stop`)).status, 200)
    await customer.closed
    const end = await explain()
    t.deepEqual([end.verdict, end.problems], ['STOPPED on purpose.', []])
    t.like(end.container, { status: 'exited', exit_code: 0 })
    t.regex(end.log_tail.join('\n'), /Redis is now ready to exit|bye bye/)
  },
)
