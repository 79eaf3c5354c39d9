import test from 'ava'
import { startReport } from '../../../cli/installation/start-report.ts'

function fake(connected: boolean) {
  const [out, err, sent]: [string[], string[], unknown[]] = [[], [], []]
  const process = {
    connected,
    send: (word: unknown) => Boolean(sent.push(word)),
    stdout: { write: (text: string) => out.push(text) },
    stderr: { write: (text: string) => err.push(text) },
  }
  return { process, out, err, sent }
}

test('in the background the summary goes to the user only, and never into the log', t => {
  const { process, out, err, sent } = fake(true)
  const { say, done } = startReport(process)
  say('Starting')
  done('API key 123-secret')
  t.deepEqual(sent, [{ say: 'Starting' }, { summary: 'API key 123-secret' }])
  t.deepEqual([out, err], [[], ['Starting\n']])
})

test('the summary stays out of the log also if the user has disconnected', t => {
  const { process, out, err, sent } = fake(true)
  const { done } = startReport(process)
  process.connected = false
  done('API key 123-secret')
  t.deepEqual([out, err, sent], [[], [], []])
})

test('in the foreground the summary is printed on the terminal', t => {
  const { process, out, sent } = fake(false)
  startReport(process).done('API key 123-secret')
  t.deepEqual([out, sent], [['API key 123-secret\n'], []])
})
