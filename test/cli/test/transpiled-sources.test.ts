import test from 'ava'
import { checksum, checksumsReady } from '../../../lib/checksums.ts'

// Of a file that `./berth test` runs this is true of what it has transpiled; of one that is run alone, of its loader.

test('an error names the line of its source', t => {
  const [message, place] = new Error('seen').stack?.split('\n') ?? []
  t.is(message, 'Error: seen')
  t.regex(place ?? '', /\/test\/cli\/test\/transpiled-sources\.test\.ts:7:28\)?$/)
})

test('a test file has its own address', t => {
  t.regex(import.meta.url, /\/test\/cli\/test\/transpiled-sources\.test\.ts$/)
  t.is(import.meta.url, test.meta.file)
})

test('the checksums that a module loads are there once it reports so', async t => {
  await checksumsReady
  const sum = checksum('CRC64NVME')
  sum.update(Buffer.from('123456789'))
  t.is(sum.digest().toString('hex'), 'ae8b14860a799888')
})

test('in a test run ava is one module; a file that is run alone loads those of its package', t => {
  const place = process.env.TEST_TRANSPILED ? /\/ava\/lib\/worker\/base\.js/ : /\/ava\/lib\/test\.js/
  t.regex(new Error('seen').stack ?? '', place)
})
