import test from 'ava'
import { pino } from 'pino'
import { smtpMailer } from '../../../activities/mail/smtp.ts'
import { beginDowngrade, confirmDowngrade } from '../../../db/accounts/downgrades.ts'
import { isMailedCode } from '../../../policy/accounts/mailed-codes.ts'
import { defaultPlans as plans } from '../../../policy/accounts/plans.ts'
import { mailedCodes } from '../../../workers/loops/mailed-codes.ts'
import { sendDueMails } from '../../kit/actors/due-mails.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'
import { readMail, startMailServer } from '../../kit/servers/mail-server.ts'

const database = testDatabase()
const masterKey = '5e'.repeat(32)

test('a mail that is sent again has the same code, and either confirms', async t => {
  const { db, url } = await database
  const server = await startMailServer()
  t.teardown(() => server.stop())
  server.script = { recipient: [421], taken: ['cut', 'cut'] }
  const user = await rows(db).user('pro-12')
  await beginDowngrade(db, plans, user.id)
  const options = {
    db,
    mailer: smtpMailer({ ...server, secure: false, credentials: null }),
    from: { name: 'Berth', address: 'berth@example.org' },
    databaseUrl: url,
    log: pino({ level: 'silent' }),
    tries: { firstWaitSeconds: 0, maxWaitSeconds: 0, maxAttempts: 9 },
  }
  // Each attempt is another process, as after a restart: only the row remains.
  for (let n = 0; n < 4; n++)
    await sendDueMails({ ...options, unqueued: mailedCodes(masterKey) }, new AbortController().signal)
  t.like(await db('mails').where({ user_id: user.id }).first(), { state: 'sent', attempts: 4 })
  const codes = server.received.map(raw => /^ {4}(\w{8})$/m.exec(readMail(raw).text)?.[1] ?? '')
  t.is(codes.length, 3)
  t.deepEqual([new Set(codes).size, /^[A-HJ-NP-Z2-9]{8}$/.test(codes[0]!)], [1, true])
  await confirmDowngrade(db, plans, user.id, id => isMailedCode(masterKey, 'downgrade', id, codes[2]!))
  t.is((await db('downgrades').where({ user_id: user.id }).first()).state, 'confirmed')
})
