import test from 'ava'
import Docker from 'dockerode'
import { comesTrue } from '../../kit/comes-true.ts'
import { bareDocker } from '../../kit/hosts/host-remains.ts'
import { watchMachine } from '../../kit/platform/machine-watch.ts'
import { countedEngine } from '../../kit/servers/counted-engine.ts'
import { realDocker } from '../../kit/servers/docker.ts'

const { run, host, spec, prepare, clean } = realDocker()

test.before(prepare)
test.after.always(() => clean())

async function start(command: string) {
  const { name } = spec(command)
  await host.create(spec(command, { name }))
  await host.start(name)
  return bareDocker.getContainer(name)
}

test('output of a container is found even where the engine splits it and others write meanwhile', async t => {
  const machine = watchMachine([run])
  t.teardown(machine.stop)
  const secret = 'cut-in-two'
  await start('while :; do echo noise; echo noise >&2; sleep 0.05; done')
  // The engine stores lines in pieces of 16 KiB.
  await start(`head -c 16380 /dev/zero | tr '\\0' x; echo ${secret.replace('-', "''-")}; sleep 60`)
  await comesTrue(() => machine.output().includes(`x${secret}`))
  t.pass()
})

test('output whose stream breaks is followed again', async t => {
  // It runs already, so it is followed once.
  const container = await start(`trap 'echo after' USR1; echo before; while :; do sleep 0.1; done`)
  const engine = await countedEngine(t)
  const { hostname, port } = new URL(engine.address)
  const machine = watchMachine([run], new Docker({ host: hostname, port: Number(port) }))
  t.teardown(machine.stop)
  await comesTrue(() => machine.output().includes('before'))
  engine.breaks(path => path.endsWith('/logs'))
  await container.kill({ signal: 'USR1' })
  await comesTrue(() => machine.output().includes('after'))
  t.pass()
})
