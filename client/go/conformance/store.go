//go:build unix

package main

import (
	"encoding/hex"
	"fmt"
	"iter"

	kerf "kerf/client/go"
)

// A plainStore asks the kit, which has the chunks.
type plainStore struct{ driver *driver }

func (s *plainStore) Put(digest, data []byte) ([]byte, error) {
	answer, err := s.driver.ask("put", object{"digest": hex.EncodeToString(digest), "data": data})
	if err != nil {
		return nil, err
	}
	return hex.DecodeString(answer.Locator)
}

func (s *plainStore) Has(digest []byte) ([][]byte, error) {
	return s.has(object{"digest": hex.EncodeToString(digest)})
}

func (s *plainStore) HasOfLength(digest []byte, length int) ([][]byte, error) {
	return s.has(object{"digest": hex.EncodeToString(digest), "length": length})
}

func (s *plainStore) has(arguments object) ([][]byte, error) {
	answer, err := s.driver.ask("has", arguments)
	if err != nil {
		return nil, err
	}
	found := [][]byte{}
	for _, text := range answer.Locators {
		locator, err := hex.DecodeString(text)
		if err != nil {
			return nil, err
		}
		found = append(found, locator)
	}
	return found, nil
}

func (s *plainStore) told(what string, arguments object) error {
	_, err := s.driver.ask(what, arguments)
	return err
}

func (s *plainStore) Sync() error { return s.told("sync", nil) }

// A collectedStore has what collections need, too.
type collectedStore struct{ plainStore }

func (s *collectedStore) Epoch() (uint64, error) {
	answer, err := s.driver.ask("epoch", nil)
	if err != nil {
		return 0, err
	}
	return answer.Epoch, nil
}

func (s *collectedStore) Plan() ([]byte, error) {
	answer, err := s.driver.ask("plan", nil)
	if err != nil {
		return nil, err
	}
	return answer.Plan, nil
}

func (s *collectedStore) RaiseEpoch(epoch uint64) error {
	return s.told("raise_epoch", object{"epoch": epoch})
}

func (s *collectedStore) WritePlan(plan []byte) error {
	return s.told("write_plan", object{"plan": plan})
}

func (s *collectedStore) RemovePlan() error { return s.told("remove_plan", nil) }

func (s *collectedStore) Lock() (func() error, error) {
	return func() error { return s.told("unlock", nil) }, s.told("lock", nil)
}

func (s *collectedStore) Chunks() iter.Seq2[kerf.Stored, error] {
	return func(yield func(kerf.Stored, error) bool) {
		answer, err := s.driver.ask("chunks", nil)
		if err != nil {
			yield(kerf.Stored{}, err)
			return
		}
		for _, place := range answer.Places {
			digest, err := hex.DecodeString(fmt.Sprint(place[0]))
			length, isNumber := place[1].(float64)
			locator, otherErr := hex.DecodeString(fmt.Sprint(place[2]))
			if err != nil || otherErr != nil || !isNumber {
				yield(kerf.Stored{}, fmt.Errorf("%v is no place", place))
				return
			}
			if !yield(kerf.Stored{Digest: digest, Length: int(length), Locator: locator}, nil) {
				return
			}
		}
	}
}

func (s *collectedStore) Delete(place kerf.Stored) error {
	return s.told("delete", object{"digest": hex.EncodeToString(place.Digest), "length": place.Length,
		"locator": hex.EncodeToString(place.Locator)})
}

func (s *collectedStore) Publish(name string, body []byte) error {
	return s.told("publish", object{"name": name, "body": body})
}

func (s *collectedStore) Withdraw(name string) error { return s.told("withdraw", object{"name": name}) }

func (s *collectedStore) Confirm(name string) error { return s.told("confirm", object{"name": name}) }

func (s *collectedStore) roots() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		answer, err := s.driver.ask("bodies", nil)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, body := range answer.Bodies {
			recipes, err := kerf.DecodeRecipes(body)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, recipe := range recipes {
				for _, chunk := range recipe.Chunks {
					if !yield(chunk.Digest, nil) {
						return
					}
				}
			}
		}
	}
}
