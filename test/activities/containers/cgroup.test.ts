import test, { type ExecutionContext } from 'ava'
import { kernelReader } from '../../../activities/containers/cgroup.ts'
import { programs } from '../../contracts/containers/host-under-test.ts'
import { realDocker } from '../../kit/servers/docker.ts'

const docker = realDocker()
test.before(() => docker.prepare())
test.after.always(() => docker.clean())

async function running(t: ExecutionContext) {
  const spec = docker.spec(programs.waits)
  t.teardown(() => docker.host.remove(spec.name))
  await docker.host.create(spec)
  await docker.host.start(spec.name)
  const { id, process } = (await docker.host.inspect(spec.name))!
  return { spec, id, pid: process!.pid }
}

test('the kernel and the engine report the same figures of a container', async t => {
  const { spec, id, pid } = await running(t)
  const { cpu_stats, memory_stats, networks } = kernelReader(pid, id)()
  t.true(cpu_stats.cpu_usage.total_usage > 1e6, 'nanoseconds: a program that has started has computed more than 1 ms')
  t.is(memory_stats?.limit, spec.memoryMb * 1024 * 1024)
  t.true(memory_stats!.usage! > 0 && memory_stats!.usage! < memory_stats!.limit!)
  t.deepEqual(Object.keys(networks!), ['eth0'])
})

test('a process outside of the container is not read: a host process in a container sees other ids', async t => {
  const { id } = await running(t)
  t.throws(() => kernelReader(process.pid, id), { message: `Process ${process.pid} is not of ${id}.` })
})

test('a process that has ended is not read, nor another one with its id', async t => {
  const { spec, id, pid } = await running(t)
  const read = kernelReader(pid, id)
  await docker.host.stop(spec.name, 1)
  t.throws(read)
  t.throws(() => kernelReader(pid, id))
})
