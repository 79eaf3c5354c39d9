import { generateKeyPairSync } from 'node:crypto'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { storeMark } from '../../../activities/installation/installation.ts'
import { s3Store } from '../../../activities/objects/s3.ts'
import { loadInstallation, openDataPlace, openInstallation } from '../../../cli/installation/installation.ts'
import { ourProcess } from '../../../cli/installation/platform.ts'
import { openSecrets } from '../../../cli/installation/secrets.ts'
import { restartUsers } from '../../../cli/secrets/outside-rotation.ts'
import { secretsCommand } from '../../../cli/secrets/secrets.ts'
import { latestAudit } from '../../../db/audit.ts'
import { readValues, valuesInPlace, withValues } from '../../../policy/installation/outside-secrets.ts'
import { readRecord } from '../../../workers/supervisor/process-record.ts'
import { Supervisor } from '../../../workers/supervisor/supervisor.ts'
import { operatorHere } from '../../kit/actors/operator-command.ts'
import { atTerminal } from '../../kit/actors/terminal.ts'
import { GitProviderServer } from '../../kit/git/git-provider.ts'
import { CaptchaProviderServer } from '../../kit/servers/captcha-provider.ts'
import { testDatabase } from '../../kit/servers/database.ts'
import { startMailServer } from '../../kit/servers/mail-server.ts'
import { ModelServer } from '../../kit/servers/model-server.ts'
import { startS3 } from '../../kit/servers/s3.ts'

const database = testDatabase()
const { DUMMY_ACCOUNT: account } = createRequire(import.meta.url)('s3rver/lib/models/account.js')

/** An installation with the settings `own` in its environment, and its commands, which must not print any given value. */
async function installation(t: ExecutionContext, own: Record<string, string>) {
  const folder = mkdtempSync(join(tmpdir(), 'berth-outside-'))
  chmodSync(folder, 0o711)
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const { db, url } = await database
  const env = { BERTH_DATA: join(folder, 'data'), DATABASE_URL: url, TEMPORAL_ADDRESS: '127.0.0.1:9', ...own }
  const start = async (change: Record<string, string> = {}) =>
    (await openInstallation({ ...env, ...change }, openDataPlace(env))).config
  const run = (...args: string[]) =>
    operatorHere([secretsCommand], { ...env, BERTH_MASTER_KEY: '' }, 'secrets', ...args)
  await start()
  return {
    db,
    env,
    start,
    run,
    /** Gives new values in a file; resolves to the output. */
    async rotate(system: string, values: Record<string, string>): Promise<string> {
      const file = join(folder, 'values')
      writeFileSync(file, ['# new', ...Object.entries(values).map(pair => pair.join('='))].join('\n'), { mode: 0o600 })
      const { stdout, stderr } = await run('rotate', `--${system}`, '--from', file)
      for (const value of Object.values(values)) t.false(`${stdout}${stderr}`.includes(value), 'no value is shown')
      return stdout + stderr
    },
    config: () => loadInstallation(env).config,
    check: async () => JSON.parse((await run('check', '--json')).stdout.split('\n')[0]!) as { state: string }[],
    rotatedValues: () => openSecrets(env.BERTH_DATA).outside,
  }
}

test.serial(
  'a new key pair of the object store is verified against the old one before anything changes, and used from then on',
  async t => {
    t.timeout(120_000)
    const { config: store, close } = await startS3()
    t.teardown(close)
    const of = await installation(t, {
      OBJECT_STORE: 's3',
      S3_STORE_ENDPOINT: store.endpoint,
      S3_STORE_ACCESS_KEY_ID: store.accessKeyId,
      S3_STORE_SECRET_ACCESS_KEY: store.secretAccessKey,
    })
    const pair = (id: string, secret: string) => ({ S3_STORE_ACCESS_KEY_ID: id, S3_STORE_SECRET_ACCESS_KEY: secret })
    t.regex(await of.rotate('store', pair('unknown-id', 'unknown-secret')), /Nothing was changed.*REFUSED/s)
    t.is(of.rotatedValues(), undefined)
    t.regex(await of.rotate('mail', { SMTP_URL: 'smtp://a:hidden@127.0.0.1:9' }), /MAIL_FROM is missing/)
    t.regex(await of.rotate('captcha', { CAPTCHA_SECRET_KEY: 'hidden' }), /uses no such system/)
    t.is((await latestAudit(of.db, 5)).length, 0)

    account.createKeyPair('second-id', 'second-secret')
    t.teardown(() => account.revokeAccessKey('second-id'))
    t.regex(await of.rotate('store', pair('second-id', 'second-secret')), /Accepted and saved to secrets\.json/)
    t.like(of.config().objectStore, { accessKeyId: 'second-id', secretAccessKey: 'second-secret' })
    const { env } = await ourProcess('api', 'api', [], of.env).command()
    t.is(env.S3_STORE_SECRET_ACCESS_KEY, 'second-secret', 'also for processes that the supervisor restarts')
    t.like(
      (await of.start()).objectStore,
      { accessKeyId: 'second-id' },
      'although the environment still has the old one',
    )
    t.is(statSync(join(of.env.BERTH_DATA, 'secrets.json')).mode & 0o777, 0o600)
    const [act] = await latestAudit(of.db, 1)
    t.is(`${act?.action} ${act?.resource}`, 'secrets.rotate S3_STORE_ACCESS_KEY_ID, S3_STORE_SECRET_ACCESS_KEY')
    t.deepEqual(
      (await of.check()).map(({ state }) => state),
      ['accepted'],
    )

    const changed = pair('by-hand', 'by-hand-secret')
    t.like((await of.start(changed)).objectStore, { accessKeyId: 'by-hand' }, 'a later change of the environment wins')
    await of.start()

    account.createKeyPair('third-id', 'third-secret')
    t.teardown(() => account.revokeAccessKey('third-id'))
    account.revokeAccessKey('second-id')
    t.deepEqual(
      (await of.check()).map(({ state }) => state),
      ['REFUSED'],
    )
    t.like(await of.run('check'), { code: 1, stderr: 'Not every secret was accepted.' })
    t.regex(await of.rotate('store', pair('third-id', 'third-secret')), /Accepted/, 'also when the old pair is revoked')
    t.like((await of.start()).objectStore, { accessKeyId: 'third-id' })
    const open = await s3Store({ ...store, accessKeyId: 'third-id', secretAccessKey: 'third-secret' }, tmpdir())
    t.is(await storeMark(open), null, 'nothing was marked')
  },
)

test.serial('a password that the mail server refuses is not saved, and verifying a login sends no mail', async t => {
  const server = await startMailServer()
  t.teardown(() => server.stop())
  const url = (pass: string) => server.url.replace('//', `//berth:${pass}@`)
  const of = await installation(t, { SMTP_URL: url('old-pass'), MAIL_FROM: 'berth@example.org' })
  const pid = await runningWorker(t, of.env.BERTH_DATA)
  const before = pid()
  server.script.login = [535]
  t.regex(await of.rotate('mail', { SMTP_URL: url('wrong-pass') }), /Nothing was changed.*SMTP_URL +REFUSED/s)
  server.script.login = ['cut']
  t.regex(await of.rotate('mail', { SMTP_URL: url('new-pass') }), /Nothing was changed.*SMTP_URL +away/s)
  t.is(of.config().mail.smtp?.credentials?.pass, 'old-pass')
  t.is(pid(), before)
  t.regex(await of.rotate('mail', { SMTP_URL: url('new-pass') }), /Accepted.*In use by worker, restarted/s)
  t.not(pid(), before, 'the process with the old one has ended')
  t.is(of.config().mail.smtp?.credentials?.pass, 'new-pass')
  t.deepEqual(
    server.logins.map(({ pass }) => pass),
    ['wrong-pass', 'new-pass', 'new-pass'],
  )
  t.deepEqual(server.received, [])

  const acts = async () => (await latestAudit(of.db, 50)).length
  const recorded = await acts()
  const file = join(of.env.BERTH_DATA, 'values')
  writeFileSync(file, `SMTP_URL=${url('next-pass')}`)
  const inContainers = { ...of.env, BERTH_DATA: join(of.env.BERTH_DATA, 'of-a-container') }
  const tried = await operatorHere([secretsCommand], inContainers, 'secrets', 'rotate', '--mail', '--from', file)
  t.regex(tried.stdout, /write SMTP_URL into \.env/, tried.stderr)
  t.is(await acts(), recorded, 'a verification alone is no rotation')
})

test.serial('a secret typed at a terminal is saved and never shown; aborting the prompt changes nothing', async t => {
  t.timeout(120_000)
  const server = await startMailServer()
  t.teardown(() => server.stop())
  const url = (pass: string) => server.url.replace('//', `//berth:${pass}@`)
  const of = await installation(t, { SMTP_URL: url('old-pass'), MAIL_FROM: 'berth@example.org' })
  const at = (typed: string) => atTerminal(['secrets', 'rotate', '--mail'], of.env, [['SMTP_URL (empty', typed]])
  const aborted = await at('smtp://half\u0004\u0003')
  t.is(aborted.code, 1, aborted.shown)
  t.regex(aborted.shown, /Nothing was changed/)
  t.is(of.rotatedValues(), undefined)
  const { shown, code } = await at(`${url('typed-pass')}\r`)
  t.is(code, 0, shown)
  t.regex(shown, /Accepted/)
  t.is(of.config().mail.smtp?.credentials?.pass, 'typed-pass')
  t.notRegex(aborted.shown + shown, /half|typed-pass/)
})

test.serial('the new key and the new secret are verified at the git provider', async t => {
  t.timeout(60_000)
  const provider = await GitProviderServer.start()
  t.teardown(() => provider.stop())
  const { settings } = provider
  const line = (pem: string) => pem.trim().replaceAll('\n', '\\n')
  const of = await installation(t, {
    GIT_PROVIDER_API_URL: settings.apiUrl,
    GIT_PROVIDER_WEB_URL: settings.webUrl,
    GIT_PROVIDER_APP_ID: settings.appId,
    GIT_PROVIDER_APP_SLUG: settings.appSlug,
    GIT_PROVIDER_PRIVATE_KEY: line(settings.privateKey),
    GIT_PROVIDER_CLIENT_ID: settings.clientId,
    GIT_PROVIDER_CLIENT_SECRET: settings.clientSecret,
    GIT_PROVIDER_WEBHOOK_SECRET: settings.webhookSecret,
  })
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const stranger = line(privateKey.export({ type: 'pkcs1', format: 'pem' }) as string)
  t.regex(
    await of.rotate('git', { GIT_PROVIDER_PRIVATE_KEY: stranger }),
    /PRIVATE_KEY +REFUSED\n.*CLIENT_SECRET +accepted/,
  )
  t.regex(
    await of.rotate('git', { GIT_PROVIDER_CLIENT_SECRET: 'made-up' }),
    /PRIVATE_KEY +accepted\n.*CLIENT_SECRET +REFUSED/,
  )
  const { pem, clientSecret } = provider.renew()
  const both = `another-secret ${settings.webhookSecret}`
  const next = { GIT_PROVIDER_CLIENT_SECRET: clientSecret, GIT_PROVIDER_WEBHOOK_SECRET: both }
  t.regex(await of.rotate('git', { GIT_PROVIDER_PRIVATE_KEY: line(pem), ...next }), /Accepted/)
  t.like(of.config().gitProvider, { privateKey: line(pem), clientSecret, webhookSecret: both })
  t.deepEqual(
    (await of.check()).map(({ state }) => state),
    ['accepted', 'accepted', 'cannot be checked'],
  )
})

test.serial('the captcha secret is verified with an invented answer', async t => {
  const provider = await CaptchaProviderServer.start()
  t.teardown(() => provider.stop())
  const of = await installation(t, {
    CAPTCHA_COUNTRIES: 'BR',
    CAPTCHA_PROVIDER: 'turnstile',
    CAPTCHA_SITE_KEY: provider.siteKey,
    CAPTCHA_SECRET_KEY: 'of-before',
    CAPTCHA_VERIFY_URL: `${provider.url}/siteverify`,
  })
  t.regex(await of.rotate('captcha', { CAPTCHA_SECRET_KEY: 'made-up' }), /REFUSED/)
  t.regex(await of.rotate('captcha', { CAPTCHA_SECRET_KEY: provider.secretKey }), /Accepted/)
  t.is(of.config().captcha?.secretKey, provider.secretKey)
  t.regex((await of.run('check')).stdout, /CAPTCHA_SECRET_KEY +accepted/)
  t.is((await of.run('check')).code, 0)
})

test.serial('new keys of language models are verified at each of them before one is saved', async t => {
  const servers = [await ModelServer.start(), await ModelServer.start()]
  t.teardown(() => Promise.all(servers.map(server => server.stop())))
  const known = ['old-one', 'old-two']
  for (const [n, server] of servers.entries())
    server.otherwise = ({ headers: { authorization } }) =>
      authorization === `Bearer ${known[n]}` ? {} : { status: 401, body: `Unknown: ${authorization}` }
  const of = await installation(t, {
    AI_UPSTREAM_URL: servers.map(({ url }) => url).join(','),
    AI_UPSTREAM_KEY: known.join(','),
  })
  const states = async () => (await of.check()).map(({ state }) => state)
  t.deepEqual(await states(), ['accepted', 'accepted'])
  known[0] = 'new-one'
  const next = (keys: string) => of.rotate('ai', { AI_UPSTREAM_KEY: keys })
  t.regex(await next('new-one'), /upstream 1\) +accepted\n.*upstream 2\) +REFUSED: it refuses the key \(401\)/)
  t.regex(await next('new-one,new-two,new-three'), /AI_UPSTREAM_KEY has 3 values/)
  servers[1]!.otherwise = { status: 503 }
  t.regex(await next('new-one,old-two'), /Nothing was changed.*upstream 2\) +away/s)
  t.is(of.rotatedValues(), undefined)
  t.is((await of.run('check')).code, 1)
  servers[1]!.otherwise = {}
  t.regex(await next('new-one,old-two'), /Accepted and saved/)
  t.deepEqual(
    of.config().ai.upstreams.map(({ key }) => key),
    ['new-one', 'old-two'],
  )
  const { env } = await ourProcess('api', 'api', [], of.env).command()
  t.is(env.AI_UPSTREAM_KEY, 'new-one,old-two', 'also for processes that the supervisor restarts')
  t.deepEqual(await states(), ['accepted', 'accepted'])
  t.regex((await of.run('check')).stdout, /^AI_UPSTREAM_KEY \(upstream 1\) +accepted$/m)
  for (const server of servers) t.true(server.requests.every(({ body }) => body.max_tokens === 1))
})

/** Starts a program as the process `worker` of an installation, under its supervisor; resolves to a function that returns its pid. */
async function runningWorker(t: ExecutionContext, folder: string): Promise<() => number | undefined> {
  const around = { runFolder: join(folder, 'run'), logFolder: join(folder, 'logs'), say: () => {} }
  for (const path of [around.runFolder, around.logFolder]) mkdirSync(path, { recursive: true })
  const supervisor = new Supervisor(around)
  t.teardown(() => supervisor.stop())
  await supervisor.start({
    name: 'worker',
    command: async () => ({
      command: process.execPath,
      args: ['-e', 'process.send({ ready: true }); setInterval(() => {}, 1000)'],
      env: { PATH: process.env.PATH },
    }),
    ready: 'ipc',
    readySeconds: 60,
    stopSignal: 'SIGTERM',
    graceSeconds: 10,
    needs: [],
  })
  return () => readRecord(around.runFolder, 'worker')?.pid
}

test('running processes that use a secret are shut down and restarted; others are left alone', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'berth-restart-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const pid = await runningWorker(t, folder)
  const before = pid()
  t.deepEqual(await restartUsers({ runFolder: join(folder, 'run') }, 'store'), ['worker'])
  t.true(pid() !== undefined && pid() !== before)
})

test('new values must be lines with known names; a refusal shows none of them', t => {
  const wrong = ['S3_STORE_BUCKET=geheim', 'geheim', 'S3_STORE_ACCESS_KEY_ID=', '# nothing']
  for (const text of wrong) t.notRegex(t.throws(() => readValues('store', text))!.message, /geheim/)
  const text = '\n# of today\nS3_STORE_ACCESS_KEY_ID = a\nS3_STORE_SECRET_ACCESS_KEY="b = c"\n'
  t.deepEqual(readValues('store', text), { S3_STORE_ACCESS_KEY_ID: 'a', S3_STORE_SECRET_ACCESS_KEY: 'b = c' })
})

test('a new value is used until the environment changes it or drops the setting', t => {
  const first = { SMTP_URL: 'smtp://a' }
  const counts = (env: { SMTP_URL?: string }, kept: ReturnType<typeof withValues>) => valuesInPlace(env, kept).SMTP_URL
  const once = withValues({}, first, { SMTP_URL: 'smtp://b' })
  const twice = withValues(once, { SMTP_URL: 'smtp://b' }, { SMTP_URL: 'smtp://c' })
  for (const [kept, value] of [[once, 'smtp://b'] as const, [twice, 'smtp://c'] as const]) {
    t.is(counts(first, kept), value)
    t.is(counts({ SMTP_URL: 'smtp://b' }, kept), value)
    for (const changed of [{ SMTP_URL: 'smtp://d' }, { SMTP_URL: '' }, {}]) t.is(counts(changed, kept), undefined)
  }
  const fromNothing = withValues({}, {}, { SMTP_URL: 'smtp://b' })
  t.is(counts({}, fromNothing), 'smtp://b')
  t.is(counts({}, withValues(fromNothing, { SMTP_URL: 'smtp://b' }, { SMTP_URL: 'smtp://c' })), 'smtp://c')
})
