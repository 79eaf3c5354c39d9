import test from 'ava'
import { pino } from 'pino'
import type { Firewall, FirewallState } from '../../../activities/firewall/port.ts'
import { protectionFindings } from '../../../cli/doctor/findings.ts'
import { bySupervisor } from '../../../cli/doctor/manner.ts'
import { findHost } from '../../../db/hosts/hosts.ts'
import { watchFirewall } from '../../../workers/host/firewall-watch.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { testPlatform } from '../../kit/platform/platform.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const started = testPlatform({ hosts: {}, worker: false, api: false })
const stands: FirewallState = { repaired: [], limited: true }

test('every round checks the rules: repairs and failures are logged and recorded', async t => {
  const { db } = await database
  await rows(db).host('h1', { protections: { quota: 'enforced', firewall: 'on' } })
  const lines: { msg: string; repaired?: string[] }[] = []
  const log = pino({ level: 'warn' }, { write: line => void lines.push(JSON.parse(line)) })
  let next: () => FirewallState = () => stands
  let looks = 0
  const firewall: Firewall = {
    async apply() {
      looks++
      const look = next()
      if (look.repaired.length) next = () => stands
      return look
    },
    async admit() {},
    async remove() {},
  }
  const reported = async (name = 'firewall') =>
    protectionFindings(await findHost(db, 'h1'), bySupervisor).find(finding => finding.name === `Protection ${name}`)!
  const state = async () => (await reported()).state
  const becomes = (words: RegExp) => comesTrue(async () => words.test(await state()))
  const end = new AbortController()
  const watching = watchFirewall({ db, firewall, hostId: 'h1', log, everySeconds: 0.01 }, end.signal)

  next = () => ({ repaired: ['the rules of X'], limited: true })
  await becomes(/^on; restored at \S+: the rules of X/)
  t.like(lines[0], { repaired: ['the rules of X'] })
  const seen = looks
  await comesTrue(async () => looks > seen + 3)
  t.regex(await state(), /^on; restored at/, 'it stays readable')

  next = () => {
    throw new Error('no such tool')
  }
  await becomes(/^BROKEN: no such tool/)
  t.regex((await reported()).remedy ?? '', /iptables -S/, 'berth doctor says what to do')
  next = () => ({ ...stands, limited: false })
  await becomes(/^on, without limits/)
  t.is((await reported('quota')).state, 'enforced')
  end.abort()
  await watching
})

test('a running host keeps checking its firewall', async t => {
  t.timeout(120_000)
  let looks = 0
  const firewall: Firewall = {
    async apply() {
      looks++
      return stands
    },
    async admit() {},
    async remove() {},
  }
  await (await started).startHost('guarded', {}, { firewall })
  await comesTrue(async () => looks > 0)
  t.pass()
})
