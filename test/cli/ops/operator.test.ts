import test from 'ava'
import { platformInfo } from '../../../cli/info.ts'
import type { Installation } from '../../../cli/installation/installation.ts'
import { operatorOf } from '../../../cli/ops/operator.ts'
import { latestAudit } from '../../../db/audit.ts'
import { parseConfig } from '../../../policy/config.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const users = 'root:x:0:0:root:/root:/bin/sh\nana:x:1000:1000::/home/ana:/bin/sh\n'

test('the login user of the kernel wins over the environment', t => {
  t.is(operatorOf({ loginUid: 1000, uid: 0, claimedName: 'bob', users }), 'operator:ana')
  t.is(operatorOf({ loginUid: 0, uid: 0, claimedName: 'bob', users }), 'operator:root')
  t.is(operatorOf({ loginUid: 4711, uid: 0, claimedName: undefined, users }), 'operator:uid 4711')
})

test('without a login user, a name from the environment is marked as such', t => {
  t.is(operatorOf({ loginUid: null, uid: 0, claimedName: undefined, users }), 'operator:root')
  t.is(operatorOf({ loginUid: null, uid: 0, claimedName: 'bob', users }), 'operator:root, says bob')
  t.is(operatorOf({ loginUid: null, uid: 1000, claimedName: 'ana', users }), 'operator:ana')
  t.is(operatorOf({ loginUid: null, uid: 12, claimedName: undefined, users: '' }), 'operator:uid 12')
})

test('a session that berth info creates is recorded', async t => {
  const { db } = await database
  const { id: userId } = await rows(db).user()
  const masterKey = '5e'.repeat(32)
  const config = parseConfig({ BERTH_DATA: '/d', BERTH_MASTER_KEY: masterKey }, '/')
  const installation = { config, dataDir: '/d', secrets: { userId } } as unknown as Installation
  const info = await platformInfo(installation, db)
  t.truthy(info.session_token)
  const [entry] = await latestAudit(db, 1)
  const session = await db('sessions').where({ user_id: userId }).first()
  t.like(entry, { account_id: userId, action: 'info.session', resource: session.id, result: 'success' })
  t.regex(entry!.actor, /^operator:./)
})
