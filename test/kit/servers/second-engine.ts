import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ExecutionContext } from 'ava'
import Docker from 'dockerode'
import { daemonArguments } from '../../../activities/containers/daemon.ts'
import { dockerHost } from '../../../activities/containers/docker/host.ts'
import { answers } from '../../../cli/services/engine/answers.ts'
import { forgetDeadEngine } from '../../../cli/services/engine/own-engine.ts'
import { processStat } from '../../../lib/process-stat.ts'
import { rootfsMaker } from '../../../runtimes/rootfs.ts'
import { comesTrue } from '../comes-true.ts'
import { namespace } from './network-namespace.ts'

const cache = process.env.XDG_CACHE_HOME ?? `${homedir()}/.cache`

/**
 * A Docker engine of this test's own, to be ended and started at will, with the settings of the one that Berth starts. It has a network
 * namespace of its own, as two engines in one take the firewall rules of each other away, and a link to this machine's. Nothing of it is
 * left after the test. For root.
 */
export async function secondEngine(t: ExecutionContext) {
  const network = await namespace(t, { seconds: 1200 })
  const folder = mkdtempSync(join(tmpdir(), 'berth-engine-'))
  const files = { socket: join(folder, 'sock'), pidFile: join(folder, 'pid') }
  const [dataRoot, execRoot] = [join(folder, 'data'), join(folder, 'exec')]
  const address = `unix://${files.socket}`
  let daemon: ChildProcess | undefined
  process.once('exit', () => daemon?.kill('SIGKILL'))

  async function start({ liveRestore }: { liveRestore: boolean }): Promise<void> {
    forgetDeadEngine({ pidFile: files.pidFile, execRoot })
    const usual = daemonArguments({ ...files, dataRoot, execRoot }).filter(word => word !== '--live-restore')
    const words = [...network.through, 'dockerd', ...usual, ...(liveRestore ? ['--live-restore'] : [])]
    const log = openSync(join(folder, 'log'), 'a')
    const opened = spawn(words[0]!, words.slice(1), { stdio: ['ignore', log, log], detached: true })
    closeSync(log)
    daemon = opened
    await comesTrue(() => {
      if (over(opened)) throw new Error(readFileSync(join(folder, 'log'), 'utf8').slice(-2000))
      return answers(address)
    })
  }

  /** As `systemctl stop` ends it, or together with all that starts containers for it, as the kernel does when memory runs out. */
  async function end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    if (!daemon || over(daemon)) return
    const containerd = Number(readFileSync(join(execRoot, 'containerd/containerd.pid'), 'utf8'))
    const ended = once(daemon, 'exit')
    daemon.kill(signal)
    if (signal === 'SIGKILL' && lives(containerd)) process.kill(containerd, signal)
    await ended
    await comesTrue(() => !lives(containerd))
  }

  // What it writes is not worth the disk that everything else here waits for.
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'mode=755', 'tmpfs', folder])
  const link = linkTo(network.pid)
  const engine = dockerHost({ dockerHost: address, makeRootfs: rootfsMaker(`${cache}/berth/images`) })
  t.teardown(async () => {
    if (!daemon || over(daemon)) await start({ liveRestore: false })
    await Promise.all((await engine.list({})).map(({ name }) => engine.remove(name)))
    await end('SIGTERM')
    for (const place of mountsIn(folder)) execFileSync('umount', ['--lazy', place])
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
    execFileSync('ip', ['link', 'delete', link.device])
  })
  return {
    address,
    engine,
    start,
    end,
    /** The address at which this machine listens for programs in the engine's namespace, and at which the engine publishes ports. */
    addresses: { machine: link.near, engine: link.far },
    /** A prefix for commands that run in the engine's namespace. */
    through: network.through,
    /** The first process of a container; to be ended also while the engine is away later. */
    async processOf(name: string) {
      const { State } = await new Docker({ socketPath: files.socket }).getContainer(name).inspect()
      return { kill: (signal: NodeJS.Signals) => process.kill(State.Pid, signal) }
    },
  }
}

/** Links this machine with the network namespace of a process; each end has an address that nothing else uses. */
function linkTo(pid: number) {
  const device = `btest${randomBytes(3).toString('hex')}`
  const [near, far] = [1, 2].map(end => `10.231.${randomByte}.${end}`) as [string, string]
  const ip = (...words: string[]) => execFileSync('ip', words)
  const inside = (...words: string[]) => execFileSync('nsenter', [`--net=/proc/${pid}/ns/net`, 'ip', ...words])
  ip('link', 'add', device, 'type', 'veth', 'peer', 'name', 'machine', 'netns', String(pid))
  ip('address', 'add', `${near}/30`, 'dev', device)
  ip('link', 'set', device, 'up')
  inside('address', 'add', `${far}/30`, 'dev', 'machine')
  for (const name of ['lo', 'machine']) inside('link', 'set', name, 'up')
  return { device, near, far }
}

const randomByte = randomBytes(1)[0]!

const over = ({ exitCode, signalCode }: ChildProcess): boolean => exitCode !== null || signalCode !== null

/** A zombie has ended too. */
function lives(pid: number): boolean {
  const state = processStat(pid)?.state
  return state !== undefined && state !== 'Z'
}

const mountsIn = (folder: string): string[] =>
  readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .map(line => line.split(' ')[1] ?? '')
    .filter(place => place === folder || place.startsWith(`${folder}/`))
    .reverse()
