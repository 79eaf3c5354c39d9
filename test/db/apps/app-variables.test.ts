import test from 'ava'
import { changeVariables, readVariables, type VariablesChange } from '../../../db/apps/app-variables.ts'
import type { Db } from '../../../db/database.ts'
import { merged } from '../../../policy/apps/variables.ts'
import { sealKeys } from '../../../policy/seal.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const keys = sealKeys('ab'.repeat(32))

const set = (values: Record<string, string>): VariablesChange => {
  const given = new Map(Object.entries(values))
  return { touches: name => given.has(name), apply: before => merged(before, given) }
}
const without = (...names: string[]): VariablesChange => ({
  touches: name => names.includes(name),
  apply: before => new Map([...before].filter(([name]) => !names.includes(name))),
})

async function makeApp(db: Db): Promise<string> {
  const make = rows(db)
  await make.host('h1')
  return (await make.app((await make.user()).id)).app.id
}

test('values are sealed for their own row, and every change raises the version', async t => {
  const { db } = await database
  const [app, other] = [await makeApp(db), await makeApp(db)]
  t.like(await readVariables(db, keys, app), { version: 0, values: new Map(), unreadable: [] })
  await changeVariables(db, keys, app, set({ B: 'geheim', A: '', __proto: 'x' }))
  const { version, values } = await readVariables(db, keys, app)
  t.deepEqual(
    [version, [...values]],
    [
      1,
      [
        ['A', ''],
        ['B', 'geheim'],
        ['__proto', 'x'],
      ],
    ],
  )
  const stored = await db('app_variables').where({ app_id: app })
  t.notRegex(stored.map(row => row.value_sealed.toString('latin1')).join(), /geheim/)
  // A value that is moved to another row is no value any more.
  await db('app_variables').insert({ ...stored.find(row => row.name === 'B'), app_id: other })
  t.deepEqual((await readVariables(db, keys, other)).unreadable, ['B'])
})

test('a change without a difference keeps the version, and unchanged values keep their bytes', async t => {
  const { db } = await database
  const app = await makeApp(db)
  await changeVariables(db, keys, app, set({ A: '1', B: '2' }))
  const bytes = async (name: string) => (await db('app_variables').where({ app_id: app, name }).first()).value_sealed
  const before = await bytes('A')
  await changeVariables(db, keys, app, set({ A: '1' }))
  await changeVariables(db, keys, app, without('C'))
  t.is((await readVariables(db, keys, app)).version, 1)
  await changeVariables(db, keys, app, set({ B: '3' }))
  t.deepEqual(await bytes('A'), before)
  await changeVariables(db, keys, app, without('A', 'B'))
  t.like(await readVariables(db, keys, app), { version: 3, values: new Map() })
})

test('twenty concurrent merges lose nothing', async t => {
  const { db } = await database
  const app = await makeApp(db)
  const one = (n: number) => changeVariables(db, keys, app, set({ [`V${n}`]: String(n), LAST: String(n) }))
  await Promise.all(Array.from({ length: 20 }, (_, n) => one(n)))
  const { version, values } = await readVariables(db, keys, app)
  t.deepEqual([version, values.size], [20, 21])
  for (let n = 0; n < 20; n++) t.is(values.get(`V${n}`), String(n))
})

test('concurrent merges never pass 256', async t => {
  const { db } = await database
  const app = await makeApp(db)
  const batch = (n: number) => Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`V${n}_${i}`, 'x']))
  const outcomes = await Promise.allSettled([0, 1, 2, 3].map(n => changeVariables(db, keys, app, set(batch(n)))))
  const codes = outcomes.map(outcome => (outcome.status === 'fulfilled' ? 'done' : outcome.reason.code)).sort()
  t.deepEqual(codes, ['TOO_MANY_ENV_VARS', 'TOO_MANY_ENV_VARS', 'done', 'done'])
  t.is((await readVariables(db, keys, app)).values.size, 200)
})

test('a locked row is reported as busy, and other rows are not delayed', async t => {
  const { db } = await database
  const [app, other] = [await makeApp(db), await makeApp(db)]
  await db.transaction(async trx => {
    await trx('apps').where({ id: app }).forUpdate().first()
    await t.throwsAsync(changeVariables(db, keys, app, set({ A: '1' })), { code: 'ENV_BUSY' })
    await changeVariables(db, keys, other, set({ A: '1' }))
  })
  await changeVariables(db, keys, app, set({ A: '1' }))
  t.is((await readVariables(db, keys, app)).version, 1)
})

test('values that cannot be decrypted can be set or removed, and block every other change', async t => {
  const { db } = await database
  const app = await makeApp(db)
  await changeVariables(db, keys, app, set({ A: '1', B: '2', C: '3' }))
  const spoil = (name: string) =>
    db('app_variables')
      .where({ app_id: app, name })
      .update({ value_sealed: Buffer.alloc(40, 1) })
  await spoil('B')
  t.like(await readVariables(db, keys, app), { version: 1, unreadable: ['B'] })
  const refused = await t.throwsAsync(changeVariables(db, keys, app, set({ A: '9' })), { code: 'READ_FAILED' })
  t.regex(refused?.message ?? '', /: B\. Set them again or remove them\.$/)
  await t.throwsAsync(changeVariables(db, keys, app, without('A')), { code: 'READ_FAILED' })
  t.is((await readVariables(db, keys, app)).version, 1)
  await changeVariables(db, keys, app, set({ B: 'new' }))
  t.is((await readVariables(db, keys, app)).values.get('B'), 'new')
  await spoil('C')
  t.deepEqual([...(await changeVariables(db, keys, app, without('C'))).variables.keys()], ['A', 'B'])
  t.like(await readVariables(db, keys, app), { version: 3, unreadable: [] })
})

test('variables are deleted with their application', async t => {
  const { db } = await database
  const app = await makeApp(db)
  await changeVariables(db, keys, app, set({ A: '1' }))
  await db('deployments').where({ app_id: app }).delete()
  await db('apps').where({ id: app }).delete()
  t.is(await db('app_variables').where({ app_id: app }).first(), undefined)
  await t.throwsAsync(changeVariables(db, keys, app, set({ A: '1' })), { code: 'APP_NOT_FOUND' })
})
