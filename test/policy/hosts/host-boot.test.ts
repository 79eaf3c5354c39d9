import test from 'ava'
import { bootIdOf, type KnownEngine, machineBootOf } from '../../../policy/hosts/host-boot.ts'

const reported = (began: string, liveRestore: boolean): KnownEngine => ({ began, liveRestore })

test('an engine that took its containers down starts another boot of its host, and no other engine does', t => {
  const known = (liveRestore: boolean, bootId = 'm1') => ({ bootId, engine: reported('10:00', liveRestore) })
  for (const before of [false, true])
    for (const now of [false, true]) {
      t.is(bootIdOf(known(before), 'm1', reported('10:00', now)), 'm1', 'it goes on, or all of its containers do')
      const boot = bootIdOf(known(before), 'm1', reported('11:00', now))
      t.is(boot, before && now ? 'm1' : 'm1/11:00', `live-restore ${before}, then ${now}`)
      t.is(machineBootOf(boot), 'm1')
    }
  t.is(bootIdOf(known(false, 'm1/09:00'), 'm1', reported('10:00', false)), 'm1/09:00')
  t.is(bootIdOf(known(false, 'm1/09:00'), 'm1', reported('11:00', false)), 'm1/11:00')
})

test('another boot of the machine is another boot of the host; the first report of an engine is not', t => {
  t.is(bootIdOf({ bootId: null, engine: null }, 'm1', reported('10:00', false)), 'm1')
  t.is(bootIdOf({ bootId: 'm1', engine: null }, 'm1', reported('10:00', false)), 'm1')
  t.is(bootIdOf({ bootId: 'm1/09:00', engine: reported('09:00', false) }, 'm1', null), 'm1/09:00')
  t.is(bootIdOf({ bootId: 'm1/09:00', engine: reported('09:00', false) }, 'm2', reported('10:00', false)), 'm2')
})
