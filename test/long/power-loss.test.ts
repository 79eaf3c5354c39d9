import test from 'ava'
import { powerLossRounds } from '../kit/crash/power-loss-rounds.ts'

const rounds = await powerLossRounds()

test.serial('the power goes 20 times under load: everything that was answered is there', t => rounds(t, 20))
