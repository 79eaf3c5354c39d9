import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { redisEngine } from '../../../../activities/databases/engines/redis/redis.ts'
import { repairLog } from '../../../../activities/databases/engines/redis/redis-log.ts'
import { engineContainer } from '../../../kit/databases/engine-container.ts'
import { redisClient, redisOptions } from '../../../kit/databases/redis-customer.ts'
import { ownFolder } from '../../../kit/folders.ts'

const command = (...words: string[]): string =>
  `*${words.length}\r\n${words.map(word => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join('')}`
const zeros = (count: number) => '\0'.repeat(count)

/** A data folder whose log has this part; resolves to it after the repair. */
async function repaired(t: ExecutionContext, text: string, name = 'appendonly.aof.2.incr.aof') {
  const data = ownFolder(t)
  mkdirSync(join(data, 'appendonlydir'))
  const path = join(data, 'appendonlydir', name)
  writeFileSync(path, text, 'latin1')
  const isRepaired = await repairLog(data)
  return { isRepaired, text: readFileSync(path, 'latin1') }
}

/** Commands with everything else taken for what Redis skips: lines of up to 1023 characters that begin with `#`. */
const isComment = (text: string): boolean =>
  text === '' ||
  text.split('\n').every((line, n, all) => (n === all.length - 1 ? line === '' : /^#.{0,1000}$/.test(line)))

test('zeros between commands become comments of the same length, of every length from two', async t => {
  const [first, second] = [command('set', 'a', zeros(300)), command('set', 'b', '*1\r\n')]
  for (const count of [2, 3, 255, 256, 511, 512, 513, 1024, 60_634, 1024 * 1024 + 7]) {
    const { isRepaired, text } = await repaired(t, first + zeros(count) + second)
    t.true(isRepaired)
    t.is(text.length, first.length + count + second.length)
    t.true(text.startsWith(first) && text.endsWith(second))
    t.true(isComment(text.slice(first.length, first.length + count)), String(count))
  }
  const end = await repaired(t, first + zeros(700))
  t.true(end.isRepaired && isComment(end.text.slice(first.length)))
})

test('a log that is whole, or damaged in another way, stays as it is', async t => {
  const first = command('set', 'a', zeros(5))
  const untouched = [
    ...[first, '', `#TS:1\r\n${first}`, first.slice(0, -4), `${first}${zeros(9)}x`, `${first}${zeros(1)}${first}`],
    ...[`*1\r\n$x\r\n${zeros(9)}`, `*3\r\n$3\r\nset${zeros(20)}`, `*999999999999999\r\n${zeros(20)}`, `x${zeros(9)}`],
  ]
  for (const text of untouched) t.deepEqual(await repaired(t, text), { isRepaired: false, text })
  const other = `${first}${zeros(9)}${first}`
  t.deepEqual(await repaired(t, other, 'appendonly.aof.2.base.rdb'), { isRepaired: false, text: other })
})

test('headers that begin in one window of the file and end in the next are read', async t => {
  const window = 1024 * 1024
  for (let over = -6; over <= 6; over++) {
    const head = command('set', 'a', '').length
    const first = command('set', 'a', 'x'.repeat(window + over - head - 6))
    const { isRepaired, text } = await repaired(t, first + command('get', 'a') + zeros(10) + first)
    t.true(isRepaired && text.length === 2 * first.length + command('get', 'a').length + 10, String(over))
  }
})

test('links and missing folders are none of the log', async t => {
  const data = ownFolder(t)
  t.false(await repairLog(data))
  const outside = join(ownFolder(t), 'outside')
  const text = command('ping') + zeros(9) + command('ping')
  writeFileSync(outside, text, 'latin1')
  mkdirSync(join(data, 'appendonlydir'))
  symlinkSync(outside, join(data, 'appendonlydir', 'appendonly.aof.1.incr.aof'))
  t.false(await repairLog(data))
  const other = ownFolder(t)
  symlinkSync(join(data, 'appendonlydir'), join(other, 'appendonlydir'))
  t.false(await repairLog(other))
  t.is(readFileSync(outside, 'latin1'), text)
})

test('Redis does not load a log with zeros, and loads all of it once it was repaired', async t => {
  t.timeout(300_000)
  const it = await engineContainer({ adapter: redisEngine, engine: 'redis', version: '8', memoryMb: 512 })
  t.teardown(() => it.clean())
  await it.prepare()
  const options = () => redisOptions(it.remote, it.secrets().password)
  const customer = await redisClient(options())
  for (let number = 0; number < 20; number++) await customer.set(`key:${number}`, 'x'.repeat(1000))
  customer.disconnect()
  await it.stop()
  const path = join(it.folders.data, 'appendonlydir', 'appendonly.aof.1.incr.aof')
  const text = readFileSync(path, 'latin1')
  const between = text.indexOf('*3', text.indexOf('key:9\r'))
  writeFileSync(path, text.slice(0, between) + zeros(60_634) + text.slice(between), 'latin1')
  await t.throwsAsync(it.start(), { message: /Bad file format reading the append only file/ })
  t.true(await redisEngine.repair!(it.folders.data))
  await it.start()
  const again = await redisClient(options())
  t.is(await again.dbsize(), 20)
  again.disconnect()
})
