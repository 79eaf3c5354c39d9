import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { fileTimes, keepTimes, slowestFiles } from '../../../cli/test/durations.ts'
import { runProcess } from '../../../lib/child-process.ts'
import { checkout } from '../../kit/command.ts'
import { ownFolder } from '../../kit/folders.ts'

test('the ten slowest files of a run are listed, slowest first, with their processor time and the sum of all', t => {
  const path = join(ownFolder(t), 'durations')
  t.deepEqual(fileTimes(path), [], 'no file has finished')
  const seconds = [3, 20.4, 1, 11, 5, 6, 7, 8, 9, 10, 100.6, 2]
  writeFileSync(path, seconds.map(n => `${n} ${n / 2} test/a/${Math.trunc(n)}.test.ts\n`).join(''))
  const line = (wall: number, processor: number, file: string) =>
    `${String(wall).padStart(6)} s, ${String(processor).padStart(5)} s of a processor  ${file}`
  t.deepEqual(slowestFiles(fileTimes(path)), [
    line(101, 50, 'test/a/100.test.ts'),
    line(20, 10, 'test/a/20.test.ts'),
    ...[11, 10, 9, 8, 7, 6, 5, 3].map(n => line(n, Math.round(n / 2), `test/a/${n}.test.ts`)),
    line(183, 92, 'all files'),
  ])
})

test('the files that took longest in earlier runs come first, after those of long folders that never ran', async t => {
  const times = join(ownFolder(t), 'cache/times')
  const files = ['policy/a', 'platform/new', 'api/b', 'api/new', 'crash/c'].map(name => `test/${name}.test.ts`)
  const took = (file: string, seconds: number) => ({ file: `test/${file}.test.ts`, seconds, processorSeconds: 1 })
  const order = async () => {
    const sorting = `import config from './ava.config.js'
      const paths = ${JSON.stringify(files.map(file => join(checkout, file)))}
      console.log(paths.sort(config.sortTestFiles).join())`
    const env = { TEST_EARLIER_TIMES: times }
    const words = ['--input-type=module', '--eval', sorting]
    const { stdout } = await runProcess(process.execPath, words, { cwd: checkout, env })
    return [...stdout.matchAll(/test\/(\w+\/\w+)\.test/g)].map(([, name]) => name)
  }
  t.deepEqual(await order(), ['platform/new', 'crash/c', 'api/b', 'api/new', 'policy/a'], 'by folder')
  keepTimes(times, [took('policy/a', 40), took('api/b', 20.5), took('crash/c', 3)])
  t.deepEqual(await order(), ['platform/new', 'policy/a', 'api/b', 'crash/c', 'api/new'])
  keepTimes(times, [took('api/b', 50.5)])
  t.deepEqual(await order(), ['platform/new', 'api/b', 'policy/a', 'crash/c', 'api/new'], 'others keep their times')
})
