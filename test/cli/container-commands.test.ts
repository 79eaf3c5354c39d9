import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { doctorCommand } from '../../cli/doctor.ts'
import { secretsCommand } from '../../cli/secrets/secrets.ts'
import { operatorHere } from '../kit/actors/operator-command.ts'
import { rows } from '../kit/rows/rows.ts'
import { CaptchaProviderServer } from '../kit/servers/captcha-provider.ts'
import { testDatabase } from '../kit/servers/database.ts'
import { startMailServer } from '../kit/servers/mail-server.ts'
import { ModelServer } from '../kit/servers/model-server.ts'

const database = testDatabase()
const folder = mkdtempSync(join(tmpdir(), 'berth-container-'))
test.after.always(() => rmSync(folder, { recursive: true, force: true }))

/** A command in a container that gets the settings `own`, in addition to those that all containers get. */
async function inContainer(own: Record<string, string>, ...args: string[]) {
  const { url } = await database
  const env = { BERTH_DATA: folder, DATABASE_URL: url, TEMPORAL_ADDRESS: '127.0.0.1:9', ...own }
  const result = await operatorHere([secretsCommand, doctorCommand], env, ...args)
  process.exitCode = 0 // findings of the doctor are no failure of this file
  return result
}

/** As docker-compose.yml sets them: what is empty in .env is set to an empty string. */
const without = {
  host: { GIT_PROVIDER_PRIVATE_KEY: '' },
  worker: { SMTP_URL: '', MAIL_FROM: '' },
  api: { GIT_PROVIDER_PRIVATE_KEY: '', CAPTCHA_SECRET_KEY: '', AI_UPSTREAM_KEY: '' },
}

test.serial(
  'a system without settings in a container is to be checked in another one, and an unused system in none',
  async t => {
    const check = async (own: Record<string, string>) => (await inContainer(own, 'secrets', 'check')).stdout
    const askApi = /^CAPTCHA_SECRET_KEY +not known here: run this command in the container api$/m
    const askForModels = /^AI_UPSTREAM_KEY +not known here: run this command in the container api$/m
    const askWorker = /^SMTP_URL +not known here: run this command in the container worker$/m
    const askForGit = /^GIT_PROVIDER_PRIVATE_KEY, .* +not known here: run this command in the container host or api$/m
    for (const [name, words] of [
      ['host', [askWorker, askApi, askForModels]],
      ['worker', [askForGit, askApi, askForModels]],
      ['api', [askWorker]],
    ] as const) {
      const output = await check(without[name])
      for (const word of [askApi, askWorker, askForGit, askForModels])
        t.is(word.test(output), (words as readonly RegExp[]).includes(word), `${name}: ${word}\n${output}`)
    }
  },
)

test.serial('a container with the settings of a system checks it', async t => {
  const [mail, captcha] = [await startMailServer(), await CaptchaProviderServer.start()]
  t.teardown(() => Promise.all([mail.stop(), captcha.stop()]))
  const url = mail.url.replace('//', '//berth:pass@')
  const worker = await inContainer({ SMTP_URL: url, MAIL_FROM: 'berth@example.org' }, 'secrets', 'check')
  t.regex(worker.stdout, /^SMTP_URL +accepted$/m)
  const own = {
    CAPTCHA_COUNTRIES: 'BR',
    CAPTCHA_PROVIDER: 'turnstile',
    CAPTCHA_SITE_KEY: captcha.siteKey,
    CAPTCHA_SECRET_KEY: captcha.secretKey,
    CAPTCHA_VERIFY_URL: `${captcha.url}/siteverify`,
  }
  t.regex((await inContainer(own, 'secrets', 'check')).stdout, /^CAPTCHA_SECRET_KEY +accepted$/m)
})

test.serial('new values are read only where the system is configured', async t => {
  const rotate = (own: Record<string, string>, system: string) =>
    inContainer(own, 'secrets', 'rotate', `--${system}`, '--from', '/nowhere')
  t.regex(
    (await rotate(without.host, 'captcha')).stderr,
    /no access to that system .*run this command in the container api\.$/,
  )
  t.regex((await rotate(without.host, 'mail')).stderr, /run this command in the container worker\.$/)
  t.regex((await rotate(without.worker, 'ai')).stderr, /run this command in the container api\.$/)
  t.regex((await rotate(without.worker, 'mail')).stderr, /ENOENT/, 'the values are read')
})

test.serial('the doctor reports of the mail server only what its container knows', async t => {
  const mailLine = async (own: Record<string, string>) =>
    /^. +mail +(.*)$/m.exec((await inContainer(own, 'doctor')).stdout)?.[1]
  t.is(
    await mailLine(without.host),
    'server unknown here: run this command in the container worker; 0 waiting, 0 failed',
  )
  t.regex((await mailLine(without.worker)) ?? '', /^files in .*no SMTP_URL is set/)
})

test.serial(
  'the doctor connects to the language models where its container knows them, and requests nothing',
  async t => {
    const aiLine = async (own: Record<string, string>) =>
      /^(.) +ai +(.*)$/m.exec((await inContainer(own, 'doctor')).stdout)?.slice(1)
    t.deepEqual(await aiLine(without.host), [
      ' ',
      'language models unknown here: run this command in the container api',
    ])
    t.is(await aiLine(without.api), undefined)
    const model = await ModelServer.start()
    t.teardown(() => model.stop())
    const { host } = new URL(model.url)
    const both = { ...without.api, AI_UPSTREAM_URL: `${model.url},http://127.0.0.1:9/v1` }
    t.deepEqual(await aiLine({ ...without.api, AI_UPSTREAM_URL: model.url }), [
      ' ',
      `language models answer at ${host}`,
    ])
    t.deepEqual(await aiLine(both), ['!', 'NOTHING ANSWERS at 127.0.0.1:9; 1 of 2 language models can be reached'])
    t.deepEqual(model.requests, [])
  },
)

test.serial('the doctor prints one JSON object for scripts', async t => {
  const { stdout } = await inContainer(without.host, 'doctor', '--json')
  const { ok, findings } = JSON.parse(stdout)
  t.false(ok, 'nothing listens at the address of Temporal')
  for (const finding of findings) t.deepEqual(Object.keys(finding), ['name', 'state', 'remedy'])
  t.like(
    findings.find(({ name }: { name: string }) => name === 'temporal'),
    {
      state: 'NOTHING ANSWERS at 127.0.0.1:9',
    },
  )
})

test.serial('the doctor of a further container host never suggests to start a second platform', async t => {
  const own = { HOST_ADDRESS: '192.0.2.5', TEMPORAL_ADDRESS: 'temporal.invalid:7233' }
  const away = { DATABASE_URL: 'postgres://berth@database.invalid:5432/berth' }
  const { stdout } = await inContainer({ ...own, ...away }, 'doctor')
  t.regex(stdout, /NOTHING ANSWERS at temporal\.invalid:7233\n +-> check temporal\.invalid:7233\n/)
  t.regex(stdout, /NOTHING ANSWERS at database\.invalid:5432\n +-> check database\.invalid:5432\n/)
  t.regex(stdout, /check the database first: database\.invalid:5432\n/)
  t.notRegex(stdout, /docker compose (up --detach(?! --no-deps)|logs .*(postgres|temporal))/)
  // The database answers, and has no row of this host.
  const { stdout: alone } = await inContainer(own, 'doctor')
  t.regex(alone, /has not reported yet\n +-> .*docker compose logs --tail 50 host\n/)
})

test.serial('the doctor names the stand-in for MongoDB, and images of databases that hosts do not have', async t => {
  const { db } = await database
  await rows(db).host('h1')
  const images = { 'berth/mongo:8': 'No registry has it.\nLoad it.', 'berth/mongo-stand-in:8': 'ready' }
  const report = async (own: Record<string, string>, more: Record<string, string> = {}) => {
    await db('hosts').update({ database_images: JSON.stringify({ ...images, ...more }) })
    return (await inContainer({ DATABASE_ENGINES: 'mongo,redis', ...own }, 'doctor')).stdout
  }
  const on = await report({ MONGO_STAND_IN: 'on' }, { 'berth/redis:8': 'ready', 'berth/redis:7': 'Too old.\nWait.' })
  t.regex(on, /^ {3}databases +mongo 8 \(a stand-in where MongoDB is not available\), redis 8 and 7$/m)
  t.regex(on, /^! {2}mongo +MONGO_STAND_IN is on: .*it is used on h1\n +-> .*remove MONGO_STAND_IN/m)
  t.regex(on, /^! {2}Databases on h1 +berth\/redis:7 NOT AVAILABLE: Too old\.\n +-> Wait\.$/m)
  t.notRegex(on, /berth\/mongo:8/)
  const off = await report({})
  t.regex(off, /^! {2}Databases on h1 +berth\/mongo:8 NOT AVAILABLE: No registry has it\.\n +-> Load it\.$/m)
  t.regex(off, /^ {3}Databases on h1 +berth\/redis:8 is being prepared$/m)
  t.notRegex(off, /stand-in/)
})
