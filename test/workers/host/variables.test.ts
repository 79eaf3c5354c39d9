import { ApplicationFailure } from '@temporalio/common'
import test from 'ava'
import { changeVariables } from '../../../db/apps/app-variables.ts'
import { sealKeys } from '../../../policy/seal.ts'
import { startVariables } from '../../../workers/host/variables.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const keys = sealKeys('ab'.repeat(32))

test('a start gets the present variables; one that cannot be decrypted fails it permanently, except for a static site', async t => {
  const { db } = await database
  const make = rows(db)
  await make.host('h1')
  const appId = (await make.app((await make.user()).id)).app.id
  const variables = startVariables(db, { sealKeys: keys })
  t.deepEqual(await variables({ appId, language: 'python' }), { version: 0, values: {} })
  const apply = () =>
    new Map([
      ['GOOD', '1'],
      ['SPOILT', '2'],
    ])
  await changeVariables(db, keys, appId, { touches: () => true, apply })
  t.deepEqual(await variables({ appId, language: 'python' }), { version: 1, values: { GOOD: '1', SPOILT: '2' } })
  await db('app_variables')
    .where({ name: 'SPOILT' })
    .update({ value_sealed: Buffer.alloc(60, 1) })
  const failure = await t.throwsAsync(variables({ appId, language: 'python' }), { instanceOf: ApplicationFailure })
  t.like(failure, { type: 'READ_FAILED', nonRetryable: true })
  t.regex(failure?.message ?? '', /SPOILT/)
  // It cannot be mended where there are no variables any more.
  t.deepEqual(await variables({ appId, language: 'static' }), { version: 1, values: {} })
  await t.throwsAsync(variables({ appId: 'f'.repeat(24), language: 'python' }), { message: /does not exist/ })
})
