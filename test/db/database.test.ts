import test from 'ava'
import { sqlState } from '../../db/database.ts'
import { testDatabase } from '../kit/database.ts'

const database = testDatabase()

test('an error names its statement, and never what this was given', async t => {
  const { db } = await database
  const error = await t.throwsAsync(db('users').insert({ id: 'geheim', email: 'geheim', nothing: 'geheim' }))
  t.regex(error?.message ?? '', /insert into "users"/)
  t.notRegex(`${error?.message}${error?.stack}`, /geheim/)
  t.is(sqlState(error), '42703')
})
