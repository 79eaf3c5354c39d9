import { execFile } from 'node:child_process'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { promisify } from 'node:util'
import test from 'ava'
import { createOptions } from '../../../activities/containers/docker/options.ts'
import { diskLimits, diskOf } from '../../../activities/volumes/disk-limits.ts'
import { folderVolumes } from '../../../activities/volumes/folder.ts'
import { loopVolumes } from '../../../activities/volumes/loop.ts'
import { parseConfig } from '../../../policy/config.ts'
import { demandRoot } from '../../kit/root.ts'
import { realDocker } from '../../kit/servers/docker.ts'

const { host, spec, prepare, clean } = realDocker()
const folder = await mkdtemp(`${tmpdir()}/berth-disk-limits-`)
const volumes = loopVolumes(folder)
const mbps = 4
const limits = { mbps, iops: 2000, volumes, folder }

test.before(async () => {
  await chmod(folder, 0o711)
  await prepare()
})
test.after.always(async () => {
  await clean()
  for (const id of await volumes.list()) await volumes.remove(id)
  await rm(folder, { recursive: true, force: true })
})

test('a container has 100 MB and 2000 operations per second unless a setting says otherwise', t => {
  t.like(parseConfig({}, '/').host.disk, { mbps: 100, iops: 2000 })
})

test('the engine limits reads on both devices, and writes on the application’s own', t => {
  const asked = (disk: Parameters<typeof createOptions>[0]['disk']) =>
    createOptions(spec('true', { disk }), { driver: 'cgroupfs' }).HostConfig
  const own = '/dev/loop7'
  t.like(asked({ mbps: 100, iops: 0, own, host: '/dev/sda' }), {
    BlkioDeviceReadBps: [own, '/dev/sda'].map(Path => ({ Path, Rate: 100 * 1024 * 1024 })),
    BlkioDeviceReadIOps: [],
    BlkioDeviceWriteBps: [{ Path: own, Rate: 100 * 1024 * 1024 }],
    BlkioDeviceWriteIOps: [],
  })
  t.false('BlkioDeviceReadBps' in asked(null)!)
})

test('without a limit or a device nothing is set', async t => {
  const none = folderVolumes(folder)
  t.is(await diskLimits('a', { ...limits, mbps: 0, iops: 0 }), null)
  t.is(await diskLimits('a', { ...limits, volumes: none, folder: '/proc' }), null)
  t.deepEqual(await diskLimits('a', { ...limits, volumes: none }), {
    mbps,
    iops: 2000,
    own: null,
    host: await diskOf(folder),
  })
})

test.serial('a program reads and writes no faster than its limits, even past the cache', async t => {
  demandRoot()
  await volumes.ensure('busy', 64, 10_001)
  const disk = await diskLimits('busy', limits)
  t.regex(disk?.own ?? '', /^\/dev\/loop\d+$/)
  const megabytes = 12
  const copy = (from: string, to: string) => `dd if=${from} of=${to} bs=1M count=${megabytes}`
  const command = [
    'cat /sys/fs/cgroup/blkio/blkio.throttle.write_bps_device /sys/fs/cgroup/io.max 2>/dev/null',
    `${copy('/dev/zero', '/app/x')} oflag=direct`,
    `${copy('/app/x', '/dev/null')} iflag=direct`,
  ].join('; ')
  const binds = [{ source: `${volumes.path('busy')}/files`, target: '/app', readOnly: false }]
  let output = ''
  const add = (text: string) => {
    output += text
  }
  await host.runToEnd(spec(command, { binds, disk }), add, AbortSignal.timeout(120_000))
  const { stdout } = await promisify(execFile)('lsblk', ['--noheadings', '--nodeps', '--output', 'MAJ:MIN', disk!.own!])
  t.true(output.includes(`${stdout.trim()} `) && output.includes(String(mbps * 1024 * 1024)), output)
  const seconds = [...output.matchAll(/copied, ([\d.]+) s/g)].map(([, time]) => Number(time))
  t.is(seconds.length, 2, output)
  // At most a tenth of a second is a free burst; a slow machine only takes longer.
  for (const time of seconds) t.true(time > (megabytes / mbps) * 0.8, output)
})
