import test from 'ava'
import { powerLossRounds } from '../kit/crash/power-loss-rounds.ts'

const rounds = await powerLossRounds()

test.serial('the power goes twice under load: everything that was answered is there', t => rounds(t, 2))
