import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { answers, forgetDeadEngine, keepDocker } from '../../../cli/services/docker.ts'
import { mendNetworks } from '../../../cli/services/engine-networks.ts'
import { processStat } from '../../../lib/process-stat.ts'
import { endRecorded, readRecord, writeRecord } from '../../../workers/supervisor/process-record.ts'
import { comesTrue } from '../../kit/comes-true.ts'

/** A folder for an engine of its own. */
function engineFolder(t: ExecutionContext) {
  const folder = mkdtempSync(join(tmpdir(), 'berth-engine-'))
  t.teardown(() => {
    spawnSync('umount', ['--lazy', `${folder}/data`]) // an engine that fails to start leaves it mounted
    rmSync(folder, { recursive: true, force: true })
  })
  const execRoot = join(folder, 'exec')
  const containerdPidFile = join(execRoot, 'containerd', 'containerd.pid')
  mkdirSync(dirname(containerdPidFile), { recursive: true })
  return { folder, execRoot, pidFile: join(folder, 'docker.pid'), containerdPidFile }
}

/** Starts an engine in a network namespace of its own: with `--bridge=none` it would remove the bridge `docker0` of another engine. */
function startEngine(t: ExecutionContext, { folder, execRoot, pidFile }: ReturnType<typeof engineFolder>) {
  const engine = spawn(
    'unshare',
    [
      ...['--net', 'dockerd'],
      `--host=unix://${folder}/docker.sock`,
      `--data-root=${folder}/data`,
      ...[`--exec-root=${execRoot}`, `--pidfile=${pidFile}`],
      ...['--bridge=none', '--iptables=false', '--ip-forward=false', '--ip-masq=false', '--log-level=error'],
    ],
    { stdio: 'ignore', detached: true },
  )
  t.teardown(() => end(engine, 'SIGTERM'))
  return engine
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill(signal)
  await once(child, 'exit')
}

const serves = (folder: string) => comesTrue(() => answers(`unix://${folder}/docker.sock`))

test('a killed engine starts again although other processes now have its pids', async t => {
  const paths = engineFolder(t)
  const other = spawn('sleep', ['600'], { stdio: 'ignore' })
  t.teardown(() => end(other, 'SIGKILL'))
  writeFileSync(paths.pidFile, `${other.pid}`)
  writeFileSync(paths.containerdPidFile, `${other.pid}`)
  const [code] = await once(startEngine(t, paths), 'exit')
  t.is(code, 1, 'the engine itself takes the other process for a running engine')

  forgetDeadEngine(paths)
  const engine = startEngine(t, paths)
  await serves(paths.folder)
  t.is(readFileSync(paths.pidFile, 'utf8'), String(engine.pid))
})

test('the pid files of a running engine stay', async t => {
  const paths = engineFolder(t)
  const engine = startEngine(t, paths)
  await serves(paths.folder)
  const containerd = readFileSync(paths.containerdPidFile, 'utf8')
  forgetDeadEngine(paths)
  t.is(readFileSync(paths.pidFile, 'utf8'), String(engine.pid))
  t.is(readFileSync(paths.containerdPidFile, 'utf8'), containerd)
})

test('an engine starts again while its killed containerd is still a zombie', async t => {
  const paths = engineFolder(t)
  const sleep = join(paths.folder, 'containerd')
  copyFileSync('/bin/sleep', sleep)
  const parent = spawn('sh', ['-c', `"${sleep}" 1 & echo $!; exec sleep 600`], { stdio: ['ignore', 'pipe', 'ignore'] })
  t.teardown(() => end(parent, 'SIGKILL'))
  const [pid] = await once(parent.stdout.setEncoding('utf8'), 'data')
  await comesTrue(() => processStat(Number(pid))?.state === 'Z')
  writeFileSync(paths.containerdPidFile, pid.trim())
  forgetDeadEngine(paths)
  startEngine(t, paths)
  await serves(paths.folder)
  t.not(readFileSync(paths.containerdPidFile, 'utf8'), pid.trim())
})

test('a pid file without a process, or without a number, is removed', async t => {
  const paths = engineFolder(t)
  const ended = spawn('true', { stdio: 'ignore' })
  await once(ended, 'exit')
  writeFileSync(paths.pidFile, `${ended.pid}`)
  writeFileSync(paths.containerdPidFile, '')
  forgetDeadEngine(paths)
  t.throws(() => readFileSync(paths.pidFile), { code: 'ENOENT' })
  t.throws(() => readFileSync(paths.containerdPidFile), { code: 'ENOENT' })
})

/** Our own start of the engine at `paths`, in a network namespace as well. */
function ownStart(t: ExecutionContext, paths: ReturnType<typeof engineFolder>) {
  const { folder } = paths
  const [path, dockerd] = [process.env.PATH!, execFileSync('which', ['dockerd'], { encoding: 'utf8' }).trim()]
  writeFileSync(join(folder, 'dockerd'), `#!/bin/sh\nexec unshare --net ${dockerd} "$@"\n`, { mode: 0o755 })
  process.env.PATH = `${folder}:${path}`
  t.teardown(() => {
    process.env.PATH = path
  })
  const engine = { ...paths, socket: `unix://${folder}/docker.sock`, dataRoot: `${folder}/data` }
  return { dockerHost: undefined, runFolder: join(folder, 'run'), logFolder: folder, engine }
}

test('an engine that no longer answers is ended, and started again', async t => {
  const paths = engineFolder(t)
  const { folder } = paths
  const options = ownStart(t, paths)
  mkdirSync(options.runFolder)
  const first = startEngine(t, paths)
  await serves(folder)
  writeRecord(options.runFolder, { name: 'dockerd', pid: first.pid!, stopSignal: 'SIGTERM', graceSeconds: 30 })
  const said: string[] = []
  const over = new AbortController()
  const kept = keepDocker(options, line => said.push(line), { over: over.signal, looks: 2 })
  t.teardown(async () => {
    over.abort()
    await kept
    await endRecorded(readRecord(options.runFolder, 'dockerd')!)
  })

  await sleep(5000)
  t.deepEqual(said, [], 'one that answers is left alone')
  first.kill('SIGSTOP')
  await once(first, 'exit')
  await serves(folder)
  t.not(readRecord(options.runFolder, 'dockerd')!.pid, first.pid)
  t.regex(said.join('\n'), /no longer answers; ending it.*\n.*has exited; starting it again/)
})

test('an engine that was killed while it deleted a network starts again, without that network', async t => {
  const paths = engineFolder(t)
  const { folder } = paths
  const docker = (...words: string[]) =>
    execFileSync('docker', [`--host=unix://${folder}/docker.sock`, ...words], { encoding: 'utf8' })
  const first = startEngine(t, paths)
  await serves(folder)
  for (const [name, subnet] of [
    ['kept', '10.229.1.0/24'],
    ['going', '10.229.2.0/24'],
  ] as const)
    docker('network', 'create', `--subnet=${subnet}`, name)
  await end(first, 'SIGKILL')
  // As the engine leaves it: about to be deleted, its addresses given back. Its values keep their length.
  const path = join(folder, 'data/network/files/local-kv.db')
  const store = readFileSync(path, 'latin1').replace(
    /"inDelete":false(,(?:(?!"scope").)*10\.229\.2\.0(?:(?!"scope").)*?)("ipamV4Info":"(?:[^"\\]|\\.)*",)/s,
    (_, before: string, addresses: string) => `"inDelete":true ${before}${' '.repeat(addresses.length)}`,
  )
  writeFileSync(path, store, 'latin1')

  t.is(mendNetworks(`${folder}/data`), 1)
  t.is(mendNetworks(`${folder}/data`), 0)
  forgetDeadEngine(paths)
  startEngine(t, paths)
  await serves(folder)
  const names = docker('network', 'ls', '--format={{.Name}}').split('\n')
  t.true(names.includes('kept'))
  t.false(names.includes('going'))
})
