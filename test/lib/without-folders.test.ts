import { ApplicationFailure } from '@temporalio/common'
import test from 'ava'
import { withCode } from '../../activities/failures.ts'
import { withoutFolders } from '../../lib/without-folders.ts'

test('only the last name of a host’s path is left, and everything else stays unchanged', t => {
  const cases = [
    ["open '/var/lib/berth/hosts/one/mounts/x/plan.json.new'", "open 'plan.json.new'"],
    ['Command failed: e2fsck -f -y /var/lib/berth/images/x.ext4', 'Command failed: e2fsck -f -y x.ext4'],
    [
      'fetched from https://git.example.org/ana/shop.git in 5/10 s',
      'fetched from https://git.example.org/ana/shop.git in 5/10 s',
    ],
    ['src/index.js was not found', 'src/index.js was not found'],
  ] as const
  for (const [message, reported] of cases) t.is(withoutFolders(message), reported)
})

test('an error without a catalogue code loses the host’s folders, and may be retried', t => {
  const error = Object.assign(new Error("EIO, read '/data/hosts/one/x'"), { code: 'EIO' })
  const failure = withCode(error) as ApplicationFailure
  t.true(failure instanceof ApplicationFailure)
  t.like(failure, { message: "EIO, read 'x'", type: 'Error', nonRetryable: false, cause: error })
})
