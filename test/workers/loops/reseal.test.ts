import test from 'ava'
import { pino } from 'pino'
import { changeVariables, readVariables } from '../../../db/apps/app-variables.ts'
import type { Db } from '../../../db/database.ts'
import { findWebhook, readWebhookAddress, setWebhook } from '../../../db/git/webhooks.ts'
import { countSealed, listValuesOfOtherKeys, replaceSealed, sealedColumns } from '../../../db/sealed-values.ts'
import { sealKeys } from '../../../policy/seal.ts'
import { resealOnce } from '../../../workers/loops/reseal.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const master = 'ab'.repeat(32)
const [one, two, three] = ['', `2:${'12'.repeat(32)}`, `2:${'12'.repeat(32)},3:${'34'.repeat(32)}`].map(further =>
  sealKeys(master, further),
) as [ReturnType<typeof sealKeys>, ReturnType<typeof sealKeys>, ReturnType<typeof sealKeys>]

async function makeApp(db: Db): Promise<string> {
  const make = rows(db)
  await make.host('h1')
  return (await make.app((await make.user()).id)).app.id
}
const put = (db: Db, keys: ReturnType<typeof sealKeys>, appId: string, values: Record<string, string>) =>
  changeVariables(db, keys, appId, { touches: () => true, apply: () => new Map(Object.entries(values)) })

/** A log whose lines are stored. */
function listening() {
  const lines: Record<string, unknown>[] = []
  const log = pino({ level: 'trace' }, { write: line => void lines.push(JSON.parse(line)) })
  return { log, lines }
}

test.beforeEach(async () => {
  const { db } = await database
  await db('app_variables').delete()
  await db('git_webhooks').delete()
})

test.serial('every column of sealed values is listed, or its values would be lost with their key', async t => {
  const { db } = await database
  const { rows: found } = await db.raw(
    `select table_name || '.' || column_name as name from information_schema.columns
      where table_schema = 'public' and column_name like '%sealed%' order by 1`,
  )
  const known = sealedColumns.map(({ table, column }) => `${table}.${column}`).sort()
  t.deepEqual(
    found.map(({ name }: { name: string }) => name),
    known,
  )
})

test.serial('values of an older key are sealed with the current one, in pages, and read as before', async t => {
  const { db } = await database
  const [app, other] = [await makeApp(db), await makeApp(db)]
  const many = Object.fromEntries(Array.from({ length: 250 }, (_, n) => [`V${n}`, `value ${n}`]))
  await put(db, one, app, many)
  await put(db, two, other, { A: 'a' })
  const address = await setWebhook(db, one, {
    appId: app,
    address: 'a'.repeat(64),
    token: 'a token',
    secret: 'a secret',
  })
  await setWebhook(db, two, { appId: other, address: 'b'.repeat(64), token: 'another', secret: null })
  t.deepEqual([...(await countSealed(db))].sort(), [
    [1, 253],
    [2, 3],
  ])

  const { log, lines } = listening()
  t.is(await resealOnce({ db, keys: three, log }), 256)
  t.deepEqual([...(await countSealed(db))], [[3, 256]])
  t.like(lines[0], { resealed: 256, key: 3 })
  t.is(lines.length, 1)
  const without = sealKeys(master, `3:${'34'.repeat(32)}`) // the second key is dropped
  t.deepEqual(Object.fromEntries((await readVariables(db, without, app)).values), many)
  t.is((await readVariables(db, without, app)).version, 1, 'the set is the same')
  t.is(await readWebhookAddress(db, without, app), address)
  t.like(await findWebhook(db, without, address), { appId: app, secret: 'a secret' })
  t.is(await resealOnce({ db, keys: three, log }), 0)
})

test.serial('a change between reading and replacing wins', async t => {
  const { db } = await database
  const app = await makeApp(db)
  await put(db, one, app, { A: 'old' })
  const column = sealedColumns.find(({ table }) => table === 'app_variables')!
  for await (const value of listValuesOfOtherKeys(db, column, two.current)) {
    await put(db, one, app, { A: 'new' })
    t.false(await replaceSealed(db, column, value, Buffer.alloc(40)))
  }
  t.is((await readVariables(db, one, app)).values.get('A'), 'new')
  const { log } = listening()
  const changes = Array.from({ length: 20 }, (_, n) => put(db, two, app, { A: `${n}`, B: 'b' }))
  await Promise.all([...changes, ...[1, 2, 3].map(() => resealOnce({ db, keys: three, log }))])
  await resealOnce({ db, keys: three, log })
  const { values, unreadable } = await readVariables(db, three, app)
  t.deepEqual([unreadable, values.get('B'), [...(await countSealed(db))]], [[], 'b', [[3, 2]]])
})

test.serial('values that cannot be decrypted are reported once a round by their row, and delay no others', async t => {
  const { db } = await database
  const app = await makeApp(db)
  await put(db, two, app, { A: 'geheim', B: 'b', C: 'c' })
  const spoil = (name: string, bytes: Buffer) =>
    db('app_variables').where({ app_id: app, name }).update({ value_sealed: bytes })
  await spoil('A', Buffer.from(`\u0002${'geheim'.repeat(9)}`)) // changed bytes
  await spoil('B', Buffer.alloc(60, 9)) // a missing key
  const { log, lines } = listening()
  t.is(await resealOnce({ db, keys: three, log }), 1)
  const [actual] = lines.filter(line => line.level === 40)
  const rowsOf = ['A', 'B'].map(name => `app_variables.value_sealed of ${app}/${name}`)
  t.like(actual, { unreadable: 2, rows: rowsOf })
  t.notRegex(JSON.stringify(lines), /geheim/)
  t.is((await readVariables(db, three, app)).values.get('C'), 'c')
  t.is(await resealOnce({ db, keys: three, log }), 0)
})
