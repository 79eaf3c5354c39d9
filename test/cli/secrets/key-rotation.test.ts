import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { pino } from 'pino'
import { loadInstallation, openDataPlace, openInstallation } from '../../../cli/installation/installation.ts'
import { openSecrets } from '../../../cli/installation/secrets.ts'
import { droppable, keyLines, withNewKey } from '../../../cli/secrets/secrets.ts'
import { changeVariables, readVariables } from '../../../db/apps/app-variables.ts'
import { latestAudit } from '../../../db/audit.ts'
import { countSealed } from '../../../db/sealed-values.ts'
import type { SealKeys } from '../../../policy/seal.ts'
import { resealOnce } from '../../../workers/loops/reseal.ts'
import { operatorCommand } from '../../kit/actors/operator-command.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const log = pino({ level: 'silent' })

function openFolder(t: { teardown(end: () => void): void }): string {
  const folder = mkdtempSync(join(tmpdir(), 'berth-rotation-'))
  chmodSync(folder, 0o711)
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'data')
}

test('after a rotation, a restart, resealing and dropping the old key everything is still readable', async t => {
  t.timeout(60_000)
  const { db, url } = await database
  const env = { BERTH_DATA: openFolder(t), DATABASE_URL: url, TEMPORAL_ADDRESS: '127.0.0.1:9', SUDO_USER: 'noor' }
  const start = async (): Promise<SealKeys> => (await openInstallation(env, openDataPlace(env))).config.sealKeys
  const secrets = (...args: string[]) => operatorCommand(env, 'secrets', ...args)
  const lines = async () => keyLines(loadInstallation(env), await countSealed(db))
  const status = async () => (await lines()).map(({ key, values, state }) => [key, values, state])
  const refusal = async (key: string) => {
    const keys = await lines()
    return t.throws(() => droppable(keys, key))?.message ?? ''
  }
  const make = rows(db)
  await make.host('h1')
  const { app } = await make.app((await make.user()).id)
  const apply = () => new Map([['SECRET', 'geheim']])
  const read = async (keys: SealKeys) => (await readVariables(db, keys, app.id)).values.get('SECRET')

  await changeVariables(db, await start(), app.id, { touches: () => true, apply })
  t.deepEqual(await status(), [[1, 1, 'seals']])
  t.is((await secrets('rotate', '--json')).stdout, '{"key":2}\n')
  t.is(statSync(join(env.BERTH_DATA, 'secrets.json')).mode & 0o777, 0o600)
  t.deepEqual(await status(), [
    [1, 1, 'seals'],
    [2, 0, 'from the next start on'],
  ])
  t.regex(await refusal('2'), /in use, or will be/)

  const second = await start()
  t.is(await read(second), 'geheim')
  await resealOnce({ db, keys: second, log })
  t.deepEqual(await status(), [
    [1, 0, 'reads'],
    [2, 1, 'seals'],
  ])

  const rotated = await secrets('rotate')
  t.regex(rotated.stdout, /Key 3 .*berth down, berth up/)
  const third = await start()
  t.regex(await refusal('2'), /needed: it encrypts 1 values/)
  await resealOnce({ db, keys: third, log })
  t.regex(await refusal('1'), /root secret/)
  t.is((await secrets('drop', '2', '--json')).stdout, '{"dropped":2}\n')
  const last = await start()
  t.deepEqual([...last.keys.keys()], [1, 3])
  t.is(await read(last), 'geheim')
  t.regex((await secrets('status')).stdout, /KEY +VALUES +STATE\n1 +0 +reads\n3 +1 +seals/)

  for (const hex of Object.values(openSecrets(env.BERTH_DATA).sealKeys ?? {})) t.false(rotated.stdout.includes(hex))
  t.notRegex(readFileSync(join(env.BERTH_DATA, 'secrets.json'), 'utf8'), /"2":/)

  t.is((await secrets('drop', '3')).code, 1)
  const acts = (await latestAudit(db, 10)).map(({ actor, account_id, action, resource }) => [
    actor,
    account_id,
    action,
    resource,
  ])
  const who = acts[0]?.[0]
  t.regex(String(who), /^operator:./)
  t.deepEqual(acts, [
    [who, null, 'secrets.drop', 'key 2'],
    [who, null, 'secrets.rotate', 'key 3'],
    [who, null, 'secrets.rotate', 'key 2'],
  ])

  const away = { ...env, DATABASE_URL: 'postgres://127.0.0.1:9/none' }
  await openInstallation(away, openDataPlace(away))
  const unrecorded = await operatorCommand(away, 'secrets', 'rotate')
  t.regex(unrecorded.stderr, /database does not respond/)
  t.deepEqual(Object.keys(openSecrets(env.BERTH_DATA).sealKeys ?? {}), ['3'], 'what cannot be recorded is not done')
})

test('keys that come from the environment are changed there', async t => {
  const { url } = await database
  const folder = openFolder(t)
  mkdirSync(folder)
  const env = { BERTH_DATA: folder, DATABASE_URL: url }
  const refused = await operatorCommand(env, 'secrets', 'rotate')
  t.is(refused.code, 1)
  t.regex(refused.stderr, /BERTH_SEAL_KEYS/)
})

test('a key number is never used twice, and the numbers are limited', t => {
  let { secrets } = withNewKey(openSecrets(openFolder(t).replace(/\/data$/, '')))
  for (let key = 3; key <= 255; key++) {
    const more = withNewKey(secrets)
    t.is(more.key, key)
    secrets = more.secrets
  }
  t.throws(() => withNewKey(secrets), { message: /BERTH_SEAL_KEYS/ })
  t.is(Object.keys(secrets.sealKeys ?? {}).length, 254)
})

test('a key that values refer to and the installation lacks is reported as missing', t => {
  const keys = {
    current: 2,
    keys: new Map([
      [1, Buffer.alloc(32)],
      [2, Buffer.alloc(32)],
    ]),
  }
  const installation = { config: { sealKeys: keys }, secrets: {} } as never
  const lines = keyLines(
    installation,
    new Map([
      [7, 3],
      [2, 1],
    ]),
  )
  t.deepEqual(
    lines.map(({ key, state }) => [key, state]),
    [
      [1, 'reads'],
      [2, 'seals'],
      [7, 'MISSING'],
    ],
  )
  t.throws(() => droppable(lines, '7'), { message: /MISSING/ })
  t.throws(() => droppable(lines, '3'), { message: /no key 3/ })
})
