import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { queueMail } from '../../db/mails.ts'
import { startEntry } from '../kit/entry.ts'
import { readMail, startMailServer } from '../kit/mail-server.ts'
import { testPlatform } from '../kit/platform.ts'
import { workflowBundle } from '../kit/workflow-bundle.ts'
import { diesAt, workerCreationSurvives } from './crash-kit.ts'

const started = testPlatform({ worker: false })

test.serial.before('bundle the workflows once', async t => {
  t.timeout(120_000)
  const { base } = await started
  base.settings.WORKFLOW_BUNDLE = await workflowBundle(base.folder)
})

for (const point of ['records.claimNext:after', 'records.releaseServes:after'])
  test.serial(`a worker that dies at ${point}: the creation ends as one running application`, async t => {
    t.timeout(120_000)
    await workerCreationSurvives(t, await started, point)
  })

test.serial('a worker that dies before or after it sent a mail: it goes out, and twice as the same', async t => {
  t.timeout(120_000)
  const { base, db, api } = await started
  const server = await startMailServer()
  const settings = { ...base.settings, SMTP_URL: server.url, MAIL_FROM: 'berth@example.org' }
  const ana = await api.makeUser()
  await queueMail(db, { userId: ana.id, template: 'memory-out', fields: { app: 'shop', limitMb: 256 } })
  const row = () => db('mails').where({ user_id: ana.id }).first()
  for (const [point, received] of [
    ['mailer.send:before', 0],
    ['mailer.send:after', 1],
  ] as const) {
    await diesAt(t, startEntry('worker', { ...settings, CRASH_POINT: point }), point)
    t.is(server.received.length, received, point)
    t.like(await row(), { state: 'queued' })
    await db('mails').update({ next_try_at: db.fn.now() })
  }
  const healed = startEntry('worker', settings)
  t.teardown(() => Promise.all([healed.kill('SIGKILL'), server.stop()]))
  while ((await row()).state !== 'sent') await sleep(50)
  const ids = server.received.map(raw => readMail(raw).headers['Message-ID'])
  t.deepEqual(ids, [`<${(await row()).id}@example.org>`, `<${(await row()).id}@example.org>`])
})
