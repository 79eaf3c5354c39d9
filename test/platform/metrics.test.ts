import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'ava'
import { listMetrics } from '../../db/apps/app-metrics.ts'
import { watchMetrics } from '../../workers/host/host-metrics.ts'
import { log, testPlatform } from '../kit/platform/platform.ts'
import type { Program } from '../kit/programs.ts'
import { readMail } from '../kit/servers/mail-server.ts'

const started = testPlatform()

/** Answers requests, and after some seconds takes memory of its own until it has so much. */
const hungry = (untilMb: number, afterSeconds = 0): Program => ({
  main: 'index.js',
  files: {
    'index.js': `const { readFileSync } = require('node:fs')
const taken = []
const ownMb = () => Number(/RssAnon:\\s+(\\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1]) / 1024
require('node:http').createServer((_, answer) => answer.end('x'.repeat(20000))).listen(process.env.PORT)
setTimeout(() => setInterval(() => {
  if (ownMb() < ${untilMb}) taken.push(Buffer.alloc(4 * 1024 * 1024, 1))
}, 10), ${afterSeconds * 1000})
`,
  },
})

/** The mails in the folder of an installation without a mail server. */
async function mailsIn(folder: string) {
  const names = (await readdir(folder).catch(() => [])).filter(name => name.endsWith('.eml')).sort()
  return Promise.all(names.map(async name => readMail(await readFile(join(folder, name), 'utf8'))))
}

test.serial('a program that fills its memory is measured, and its owner gets one mail', async t => {
  t.timeout(120_000)
  const platform = await started
  const ana = await platform.api.makeUser()
  await platform.db('users').where({ id: ana.id }).update({ locale: 'pt-BR' })
  const app = await platform.deploy(ana, hungry(475), { MEMORY: '512', DISPLAY_NAME: 'Loja' })
  t.is(app.operation.state, 'success')

  // A host samples every 15 s; this additional loop does so without the wait.
  const { parts, id: hostId } = platform.hosts.get('a')!
  const ending = new AbortController()
  const watching = watchMetrics(
    { db: platform.db, engine: parts.engine, hostId, log, sampleSeconds: 0.4, pointSeconds: 2 },
    ending.signal,
  )
  t.teardown(async () => {
    ending.abort()
    await watching
  })
  await platform.until(
    async () => {
      await platform.page(app.domain)
      const found = await listMetrics(platform.db, app.id)
      return found.length >= 3 && found[0]!.ram > 460
    },
    60,
    'points of a full memory',
  )
  const as = platform.api.as(ana)
  const points = (await as.get(`/v2/apps/${app.id}/metrics`)).body.response
  t.true(points.length >= 3)
  for (const { cpu, ram, net } of points) t.true(cpu >= 0 && ram > 0 && ram <= 512 && net[0] >= 0 && net[1] >= 0)
  t.true(
    points.some(({ net }: { net: number[] }) => net[1]! > 20_000),
    'what it answered was counted',
  )
  t.true(points.some(({ cpu }: { cpu: number }) => cpu > 0))

  const folder = join(platform.base.folder, 'mail')
  await platform.until(async () => (await mailsIn(folder)).length > 0, 20, 'the mail')
  const [mail, ...others] = await mailsIn(folder)
  t.deepEqual(others, [])
  t.regex(mail!.headers.Subject!, /^Loja está usando 9\d% da memória$/)
  t.is((await as.delete(`/v2/apps/${app.id}`)).status, 200)
})

test.serial('when a program is killed for its memory its owner gets a mail', async t => {
  t.timeout(120_000)
  const platform = await started
  const bob = await platform.api.makeUser()
  const app = await platform.deploy(bob, hungry(4000, 5), { MEMORY: '256', DISPLAY_NAME: 'Shop', SUBDOMAIN: null })
  t.is(app.operation.state, 'success')
  t.is((await platform.api.as(bob).get(`/v2/apps/${app.id}/metrics`)).body.code, 'METRICS_NOT_SUPPORTED')
  const ours = async () =>
    (await mailsIn(join(platform.base.folder, 'mail'))).find(({ headers }) => headers.Subject?.startsWith('Shop '))
  const mail = await platform.until(ours, 60, 'the mail')
  t.is(mail.headers.Subject, 'Shop was terminated because it ran out of memory')
  t.regex(mail.text, /more than the 256 MB/)
  t.is((await platform.api.as(bob).delete(`/v2/apps/${app.id}`)).status, 200)
})
