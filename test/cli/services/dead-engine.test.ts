import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { answers } from '../../../cli/services/engine/answers.ts'
import { keepDocker } from '../../../cli/services/engine/docker.ts'
import { forgetDeadEngine, startEngine } from '../../../cli/services/engine/own-engine.ts'
import { repairNetworks } from '../../../cli/services/engine/stored-networks.ts'
import { processStat } from '../../../lib/process-stat.ts'
import { endRecorded, readRecord, writeRecord } from '../../../workers/supervisor/process-record.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { countedEngine } from '../../kit/servers/counted-engine.ts'

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
function runEngine(t: ExecutionContext, { folder, execRoot, pidFile }: ReturnType<typeof engineFolder>) {
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
  const [code] = await once(runEngine(t, paths), 'exit')
  t.is(code, 1, 'the engine itself takes the other process for a running engine')

  forgetDeadEngine(paths)
  const engine = runEngine(t, paths)
  await serves(paths.folder)
  t.is(readFileSync(paths.pidFile, 'utf8'), String(engine.pid))
})

test('the pid files of a running engine stay', async t => {
  const paths = engineFolder(t)
  const engine = runEngine(t, paths)
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
  runEngine(t, paths)
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

/** The engine at `paths` as one of Berth, in a network namespace too. It is reached through a line that loses what it is told to. */
async function ownEngine(t: ExecutionContext, paths: ReturnType<typeof engineFolder>) {
  const { folder } = paths
  const runFolder = join(folder, 'run')
  mkdirSync(runFolder)
  const first = runEngine(t, paths)
  await serves(folder)
  writeRecord(runFolder, { name: 'dockerd', pid: first.pid!, stopSignal: 'SIGTERM', graceSeconds: 30 })
  const line = await countedEngine(t, `unix://${folder}/docker.sock`)
  const program = join(folder, 'program')
  const listens = `for word; do shift; case $word in --host=*) word=--host=unix://${folder}/docker.sock; esac; set -- "$@" "$word"; done`
  writeFileSync(program, `#!/bin/sh\n${listens}\nexec unshare --net dockerd "$@"\n`, { mode: 0o755 })
  const engine = { ...paths, program, socket: line.address, dataRoot: `${folder}/data` }
  const options = { dockerHost: undefined, runFolder, logFolder: folder, engine }
  const said: string[] = []
  const say = (text: string) => said.push(text)
  const pid = () => readRecord(runFolder, 'dockerd')?.pid
  t.teardown(async () => {
    const record = readRecord(runFolder, 'dockerd')
    if (record) await endRecorded(record)
  })
  const keep = () => {
    const over = new AbortController()
    const kept = keepDocker(options, say, { over: over.signal, longestSilenceMs: 3000 })
    t.teardown(async () => {
      over.abort()
      await kept
    })
  }
  return { first, line, options, said, say, pid, keep }
}

test('an engine that no longer says which networks it has is ended, and started again', async t => {
  const paths = engineFolder(t)
  const { first, line, said, pid, keep } = await ownEngine(t, paths)
  keep()
  await sleep(5000)
  t.deepEqual(said, [], 'one that answers is left alone')
  line.loses(path => path === '/networks')
  await once(first, 'exit')
  line.loses(() => false)
  await serves(paths.folder)
  t.not(pid(), first.pid)
  t.regex(said.join('\n'), /no longer answers; ending it.*\n.*has exited; starting it again/)
})

test('an engine that hangs already when it is looked at first is ended too', async t => {
  const { first, line, keep } = await ownEngine(t, engineFolder(t))
  line.loses(path => path === '/networks')
  keep()
  await once(first, 'exit')
  t.pass()
})

test('nothing is started on the files of an engine that runs, and one that the system has started is left alone', async t => {
  const paths = engineFolder(t)
  const { first, options, said, say, pid, keep } = await ownEngine(t, paths)
  startEngine(options, say)
  t.is(pid(), first.pid, 'our own that is silent')
  writeRecord(options.runFolder, { name: 'dockerd', pid: process.pid, stopSignal: 'SIGTERM', graceSeconds: 30 })
  const record = join(options.runFolder, 'dockerd.json')
  writeFileSync(record, readFileSync(record, 'utf8').replace(/"startTicks":"/, '"startTicks":"1'))
  keep()
  await comesTrue(() => pid() === undefined)
  await sleep(3000)
  t.deepEqual(said, [])
  t.is(first.exitCode, null)
})

test('an engine that was killed while it deleted a network starts again, without that network', async t => {
  const paths = engineFolder(t)
  const { folder } = paths
  const docker = (...words: string[]) =>
    execFileSync('docker', [`--host=unix://${folder}/docker.sock`, ...words], { encoding: 'utf8' })
  const first = runEngine(t, paths)
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

  t.is(repairNetworks(`${folder}/data`), 1)
  t.is(repairNetworks(`${folder}/data`), 0)
  forgetDeadEngine(paths)
  runEngine(t, paths)
  await serves(folder)
  const names = docker('network', 'ls', '--format={{.Name}}').split('\n')
  t.true(names.includes('kept'))
  t.false(names.includes('going'))
})
