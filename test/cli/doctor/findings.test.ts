import test from 'ava'
import { upstreamFinding } from '../../../cli/doctor/ai-upstreams.ts'
import { buildFindings } from '../../../cli/doctor/builds.ts'
import { engineFindings, engineVersionFinding, liveRestoreFinding } from '../../../cli/doctor/engine.ts'
import {
  addressFinding,
  diskFinding,
  findingsView,
  mailFinding,
  nameFinding,
  processFinding,
  protectionFindings,
  reportOf,
} from '../../../cli/doctor/findings.ts'
import { byCompose, bySupervisor, hostAlone, isElsewhere, mannerOf } from '../../../cli/doctor/manner.ts'
import { parseConfig } from '../../../policy/config.ts'
import { countedEngine } from '../../kit/servers/counted-engine.ts'

const all = ['analytics', 'api', 'host', 'postgres', 'proxy', 'temporal', 'worker']
const ours = { postgres: false, temporal: false }

test('the report marks what needs attention, says what to do below, and counts at the end', t => {
  const good = { name: 'node', state: 'v24' }
  t.is(reportOf([good]), '   node  v24\n\nNothing needs to be done.')
  t.is(
    reportOf([good, { name: 'temporal', state: 'is away', remedy: 'start it' }]),
    [
      '   node      v24',
      '!  temporal  is away',
      '             -> start it',
      '',
      '1 of 2 need attention: the lines with "!".',
    ].join('\n'),
  )
})

test('scripts get the same findings as one object', t => {
  const good = { name: 'node', state: 'v24' }
  const bad = { name: 'temporal', state: 'is away', remedy: 'start it' }
  t.deepEqual(findingsView([good]), { ok: true, findings: [{ ...good, remedy: null }] })
  t.deepEqual(findingsView([good, bad]), { ok: false, findings: [{ ...good, remedy: null }, bad] })
})

test('a part that a setting names is to be started there, and not by Berth', t => {
  const addresses = ['temporal.internal:7233']
  const finding = addressFinding(
    'temporal',
    { addresses, silent: addresses, elsewhere: addresses },
    'temporal',
    bySupervisor,
    'TEMPORAL_ADDRESS',
  )
  t.is(finding.state, 'NOTHING ANSWERS at temporal.internal:7233')
  t.is(finding.remedy, 'start it there: it is set with TEMPORAL_ADDRESS, so Berth does not start it')
})

test('language models that cannot be reached are reported, with what that means for callers', t => {
  const [one, two] = ['127.0.0.1:8000', 'models.example.com:443']
  t.deepEqual(upstreamFinding([one, two], []), { name: 'ai', state: `language models answer at ${one}, ${two}` })
  t.is(upstreamFinding([one, two], [one]).state, `NOTHING ANSWERS at ${one}; 1 of 2 language models can be reached`)
  const { state, remedy } = upstreamFinding([one], [one])
  t.is(state, `NOTHING ANSWERS at ${one}; every call is refused`)
  t.regex(remedy!, /AI_UPSTREAM_URL.*berth ai check$/)
})

test('the proxy and authorities of builds are shown as the host reported them, with what to do', t => {
  t.deepEqual(buildFindings(undefined), [])
  const builds = {
    proxy: { state: 'none', remedy: 'set BUILD_PROXY' },
    authorities: { state: '142 (/etc/ssl/cert.pem)', remedy: null },
  }
  t.deepEqual(buildFindings({ builds }), [
    { name: 'build proxy', state: 'none', remedy: 'set BUILD_PROXY' },
    { name: 'build authorities', state: '142 (/etc/ssl/cert.pem)', remedy: undefined },
  ])
})

test('an engine without live-restore is reported, with what to set', t => {
  t.is(liveRestoreFinding(true).remedy, undefined)
  t.regex(liveRestoreFinding(false).state, /^OFF/)
  t.regex(liveRestoreFinding(false).remedy!, /"live-restore": true.*daemon\.json.*reload docker/)
  t.truthy(liveRestoreFinding(null).remedy)
})

test('missing processes are named, with the command for their logs', t => {
  t.is(processFinding(all, ours, true).remedy, undefined)
  const withoutAnalytics = all.filter(name => name !== 'analytics')
  t.regex(processFinding(withoutAnalytics, ours, true).remedy!, /berth logs analytics$/)
  t.is(processFinding(withoutAnalytics, ours, true, [], { analytics: false }).remedy, undefined)
  t.regex(processFinding(all, ours, true, [], { toyModel: true }).remedy!, /berth logs toy-model$/)
  const one = processFinding(
    all.filter(name => name !== 'host'),
    ours,
    true,
  )
  t.regex(one.state, /^running: .*; not running: host$/)
  t.regex(one.remedy ?? '', /berth logs host$/)
  const still = processFinding(all, ours, true, [{ name: 'supervisor', pid: 7 }])
  t.is(still.state, 'supervisor (7) STOPPED by a signal')
  t.is(still.remedy, 'continue: kill -CONT 7')
  const none = processFinding([], ours, false)
  t.like(none, { state: 'running: none; not running: supervisor', remedy: 'start Berth: berth up -d' })
})

test('a silent address is reported with the commands to start the part and to read its log, for each kind of installation', t => {
  const addresses = ['127.0.0.1:4000', '127.0.0.1:4001']
  t.deepEqual(addressFinding('api', { addresses, silent: [], elsewhere: [] }, 'api', byCompose), {
    name: 'api',
    state: 'answers at 127.0.0.1:4000, 127.0.0.1:4001',
  })
  const silent = addresses.slice(1)
  t.is(
    addressFinding('api', { addresses, silent, elsewhere: [] }, 'api', byCompose).state,
    'NOTHING ANSWERS at 127.0.0.1:4001',
  )
  const remedyOf = (manner: typeof byCompose) =>
    addressFinding('api', { addresses, silent, elsewhere: [] }, 'api', manner).remedy
  t.is(remedyOf(bySupervisor), 'berth up -d; if that does not help: berth logs api')
  t.is(remedyOf(byCompose), 'docker compose up --detach; if that does not help: docker compose logs --tail 50 api')
})

test('on a further container host no remedy starts a second platform', t => {
  const config = (own = {}) => parseConfig(own, '/')
  t.is(mannerOf({ inContainers: true, config: config({ HOST_ADDRESS: '10.0.0.2' }) }), hostAlone)
  t.is(mannerOf({ inContainers: true, config: config() }), byCompose)
  t.is(mannerOf({ config: config() }), bySupervisor)
  const silent = ['10.0.0.1:5432']
  t.like(addressFinding('database', { addresses: silent, silent, elsewhere: silent }, 'postgres', hostAlone), {
    state: 'NOTHING ANSWERS at 10.0.0.1:5432',
    remedy: 'check 10.0.0.1:5432',
  })
  const remedy = protectionFindings({ reachable: false, protections: {} }, hostAlone)[0]?.remedy
  t.is(remedy, 'docker compose up --detach --no-deps host; then: docker compose logs --tail 50 host')
  for (const here of ['127.0.0.1:5432', '[::1]:5432', 'localhost:5432']) t.false(isElsewhere(here), here)
  for (const there of ['192.0.2.1:5432', '[2001:db8::1]:5432', 'db.example:5432']) t.true(isElsewhere(there), there)
})

test('an outdated engine needs attention, and one whose filter permits io_uring is reported with a way to deny it', t => {
  const remedy = (version: string, ioUring: string | null) => engineVersionFinding(version, 'unix:///x', ioUring).remedy
  t.is(remedy('28.0.1', '0'), undefined)
  for (const [version, disabled] of [
    ['25.0.4', '0'],
    ['20.10.24', '1'],
    ['20.10.24', '2'],
  ] as const) {
    t.regex(remedy(version, disabled)!, /^update it to 28/)
    t.notRegex(remedy(version, disabled)!, /io_uring/)
  }
  for (const disabled of ['0', null]) t.regex(remedy('20.10.24+dfsg1', disabled)!, /kernel\.io_uring_disabled=1/)
})

test('a full disk, a missing folder and failed mail need attention', t => {
  t.is(diskFinding('/data', 6e9).remedy, undefined)
  t.regex(diskFinding('/data', 4e9).state, /^4\.0 GB free at \/data - LOW$/)
  t.truthy(diskFinding('/data', 4e9).remedy)
  t.regex(diskFinding('/data', null).remedy ?? '', /BERTH_DATA/)
  t.is(mailFinding('smtp', { queued: 3, failed: 0 }).remedy, undefined)
  t.regex(mailFinding('smtp', { queued: 0, failed: 1 }).remedy ?? '', /berth mail list/)
})

test('a domain that customers and the API share needs attention; a private machine does not', t => {
  const finding = (appsDomain: string, base: string, other: string) =>
    nameFinding(
      parseConfig(
        {
          APPS_DOMAIN: appsDomain,
          BASE_URL: base,
          FILES_URL: `https://files.${other}`,
          PUBLIC_URL: `https://public.${other}`,
        },
        '/',
      ),
    )
  const shared = finding('apps.example.com', 'https://api.example.com', 'example.com')
  t.truthy(shared.remedy)
  t.regex(shared.state, /^APPS_DOMAIN, FILES_URL, PUBLIC_URL:/)
  t.is(finding('example-apps.net', 'https://api.example.com', 'example-apps.net').remedy, undefined)
  t.is(finding('apps.localhost', 'http://127.0.0.1:4000', 'localhost').remedy, undefined)
})

test('protections that are off need attention, and so does a silent host', t => {
  const on = { quota: 'enforced', users: 'one per application', firewall: 'on' }
  const remedies = (protections: Record<string, string>, reachable = true) =>
    protectionFindings({ reachable, protections }, bySupervisor).flatMap(({ name, remedy }) => (remedy ? [name] : []))
  t.deepEqual(remedies(on), [])
  t.deepEqual(remedies({ ...on, disks: 'all present' }), [])
  t.deepEqual(remedies({ ...on, disks: 'BROKEN: of 3 disks 1 lost (a)' }), ['Protection disks'])
  t.deepEqual(remedies({ ...on, firewall: 'on; restored at 2026-01-01T00:00:00.000Z: rules' }), [])
  t.deepEqual(remedies(on, false), ['container host'])
  t.deepEqual(
    remedies({
      quota: 'checked, not enforced: the kernel has no loop devices',
      users: 'one for all: the host process does not run as root',
      firewall: 'BROKEN: iptables ended with 4',
      bandwidth: 'off: tc does not work here: Error: Specified qdisc kind is unknown.',
    }),
    ['Protection quota', 'Protection users', 'Protection firewall', 'Protection bandwidth'],
  )
  t.deepEqual(remedies({ firewall: 'off: the setting HOST_FIREWALL is off' }), ['Protection firewall'])
  t.truthy(protectionFindings(undefined, byCompose)[0]!.remedy)
})

test('each protection that is off has a remedy of its own', t => {
  const remedy = (name: string, state: string) =>
    protectionFindings({ reachable: true, protections: { [name]: state } }, byCompose)[1]?.remedy ?? ''
  t.regex(remedy('bandwidth', 'off: tc does not work here'), /modprobe sch_tbf.*docker compose restart host/)
  t.regex(remedy('quota', 'checked, not enforced: no loop devices'), /modprobe loop.*docker compose restart host/)
  t.regex(remedy('firewall', 'off: iptables does not work here'), /`iptables -S` .*docker compose restart host/)
  t.regex(remedy('firewall', 'BROKEN: no such tool'), /`iptables -S` .*every 10 s: docker compose logs/)
  t.is(remedy('disks', 'BROKEN: of 9 disks 1 read-only (a)').split(';').length, 1)
  t.regex(
    remedy('disks', 'BROKEN: of 9 disks 1 lost (a), 2 read-only (b, c), 1 not mounted (d)'),
    /snapshot; .*free space.*; .*docker/,
  )
  for (const name of ['quota', 'firewall', 'users'])
    t.regex(remedy(name, 'off: the host process does not run as root'), /run Berth as root$/)
})

test('an engine that says nothing about its networks is to be restarted', async t => {
  const engine = await countedEngine(t)
  const [running] = await engineFindings(engine.address)
  t.notRegex(running!.state, /NETWORKS/)
  engine.loses(path => path === '/networks')
  const [stuck] = await engineFindings(engine.address)
  t.regex(stuck!.state, /BUT NOT ABOUT NETWORKS/)
  t.regex(stuck!.remedy!, /systemctl restart docker/)
})
