import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { dataFolder, makeDataFolder } from '../../../cli/installation/data-folder.ts'
import {
  dataDirOf,
  loadInstallation,
  NotRunning,
  openDataPlace,
  openInstallation,
  ownerUrl,
} from '../../../cli/installation/installation.ts'
import { ourProcess } from '../../../cli/installation/platform.ts'
import { openSecrets, saveSecrets } from '../../../cli/installation/secrets.ts'
import { reachableByOthers } from '../../../cli/services/reach.ts'
import { demandRoot } from '../../kit/root.ts'

function openFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'berth-place-'))
  chmodSync(folder, 0o711)
  return folder
}

test('secrets are created once, and readable by their owner only', t => {
  const folder = openFolder()
  const created = openSecrets(folder)
  t.regex(created.masterKey, /^[0-9a-f]{64}$/)
  t.deepEqual(openSecrets(folder), created)
  saveSecrets(folder, { ...created, apiKey: 'key' })
  t.is(openSecrets(folder).apiKey, 'key')
  t.is(statSync(join(folder, 'secrets.json')).mode & 0o777, 0o600)
})

test('an installation without a login for its processes gets one, and its processes get no other', async t => {
  const env = { BERTH_DATA: join(openFolder(), 'data'), DATABASE_OWNER_URL: 'postgres://owner:x@127.0.0.1/y' }
  const place = openDataPlace(env)
  const { processPassword: _, ...older } = openSecrets(place.dataDir)
  saveSecrets(place.dataDir, older)
  const installation = await openInstallation(env, place)
  const { processPassword, ...others } = openSecrets(place.dataDir)
  t.deepEqual(others, older)
  t.regex(processPassword ?? '', /^[0-9a-f]{48}$/)
  t.is(new URL(installation.config.databaseUrl).username, 'berth_process')
  t.is(new URL(installation.config.databaseUrl).password, String(processPassword))
  t.true(ownerUrl(installation).startsWith(`postgres://berth:${older.databasePassword}@`))
  t.false('DATABASE_OWNER_URL' in loadInstallation({ BERTH_DATA: env.BERTH_DATA }).settings)
  const { env: given } = await ourProcess('api', 'api', [], installation.settings).command()
  t.falsy(given?.DATABASE_OWNER_URL)
  t.false(JSON.stringify(installation.settings).includes(String(older.databasePassword)))
})

test('later commands see the settings of the start, and ports stay the same', async t => {
  const env = { BERTH_DATA: join(openFolder(), 'data'), RATE_LIMIT_SCALE: '7', PATH: process.env.PATH }
  const first = await openInstallation(env, openDataPlace(env))
  const loaded = loadInstallation({ BERTH_DATA: env.BERTH_DATA })
  t.is(loaded.config.rateLimitScale, 7)
  t.is(loaded.config.databaseUrl, first.config.databaseUrl)
  t.is(loaded.config.host.id, first.config.host.id)
  t.false('PATH' in loaded.settings)
  t.deepEqual((await openInstallation(env, openDataPlace(env))).ports, first.ports)
  t.is(statSync(join(env.BERTH_DATA, 'run/settings.json')).mode & 0o777, 0o600)
})

test('parts that the environment names are used instead of own ones', async t => {
  const env = {
    BERTH_DATA: join(openFolder(), 'data'),
    DATABASE_URL: 'postgres://db.example/berth',
    TEMPORAL_ADDRESS: 'temporal.example:7233',
  }
  const { external, config } = await openInstallation(env, openDataPlace(env))
  t.deepEqual(external, { postgres: true, temporal: true })
  t.is(config.databaseUrl, env.DATABASE_URL)
  t.is(config.temporalUiUrl, null)
})

test('a command before the first start says what to do', t => {
  const error = t.throws(() => loadInstallation({ BERTH_DATA: join(openFolder(), 'nothing') }), {
    instanceOf: NotRunning,
  })
  t.regex(error?.message ?? '', /berth up/)
})

test('two installations never share a host name', async t => {
  const ids = await Promise.all(
    [1, 2].map(async () => {
      const env = { BERTH_DATA: join(openFolder(), 'data') }
      return (await openInstallation(env, openDataPlace(env))).config.host.id
    }),
  )
  t.not(ids[0], ids[1])
})

test('as root, a data folder in a closed folder becomes a link into an open one', t => {
  demandRoot()
  const closed = join(openFolder(), 'closed')
  mkdirSync(closed, { mode: 0o700 })
  const wanted = join(closed, 'data')
  const { folder, note } = makeDataFolder(wanted, closed)
  t.teardown(() => rmSync(folder, { recursive: true }))
  t.true(reachableByOthers(folder))
  t.true(lstatSync(wanted).isSymbolicLink())
  t.is(realpathSync(wanted), folder)
  t.regex(note ?? '', /closed to other users/)
  writeFileSync(join(wanted, 'kept'), 'yes')
  t.is(dataDirOf({ BERTH_DATA: wanted }), folder)
  t.is(readFileSync(join(makeDataFolder(dataFolder(wanted, closed), closed).folder, 'kept'), 'utf8'), 'yes')
})

test('as root, a closed folder that already holds data is left unchanged', t => {
  demandRoot()
  const closed = join(openFolder(), 'closed')
  mkdirSync(join(closed, 'data'), { recursive: true })
  chmodSync(closed, 0o700)
  writeFileSync(join(closed, 'data/precious'), '')
  t.throws(() => makeDataFolder(join(closed, 'data'), closed), { message: /chmod o\+x/ })
  t.true(existsSync(join(closed, 'data/precious')))
})
